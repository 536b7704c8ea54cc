//! The XML extension of a CIFTI-2 file: what the rows and columns of its matrix stand for.

use std::collections::HashSet;
use std::str::FromStr;

use roxmltree::{Document, Node, ParsingOptions};

use crate::problem::{Problem, ensure, utf8};

#[derive(Debug, Clone, PartialEq)]
pub enum Axis {
    Series {
        points: u64,
        /// Step in seconds; absent where the series is not over time.
        step_seconds: Option<f64>,
        /// Where the first point lies, in the unit of the series.
        start: f64,
    },
    /// Points of grey matter.
    BrainModels {
        /// Surfaces and volume parts, in the order of their indices.
        models: Vec<BrainModel>,
        volume: Option<VolumeGrid>,
    },
    Parcels(Vec<String>),
    Labels(Vec<LabelMap>),
    /// Named maps of plain numbers.
    Scalars(u64),
}

impl Axis {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Series { points, .. } => *points,
            Self::BrainModels { models, .. } => models.iter().map(|m| m.places.len() as u64).sum(),
            Self::Parcels(names) => names.len() as u64,
            Self::Labels(maps) => maps.len() as u64,
            Self::Scalars(count) => *count,
        }
    }

    /// What messages call it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Series { .. } => "a series",
            Self::BrainModels { .. } => "brain models",
            Self::Parcels(_) => "parcels",
            Self::Labels(_) => "labels",
            Self::Scalars(_) => "scalars",
        }
    }
}

/// The points of one structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrainModel {
    /// `CIFTI_STRUCTURE_...`.
    pub structure: String,
    /// Vertices of the whole surface, where it is one.
    pub surface_vertices: Option<u64>,
    pub places: Places,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Places {
    Vertices(Vec<u32>),
    Voxels(Vec<[u32; 3]>),
}

impl Places {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Vertices(v) => v.len(),
            Self::Voxels(v) => v.len(),
        }
    }
}

/// The grid voxels refer to.
#[derive(Debug, Clone, PartialEq)]
pub struct VolumeGrid {
    pub shape: [u64; 3],
    /// Rows of the 4 x 4 matrix, in the unit the file states.
    pub matrix: [f64; 16],
    /// Power of ten of a metre that unit is; -3 for millimetres.
    pub meter_exponent: i32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelMap {
    pub name: String,
    /// Key and name of every label, in the order of the table.
    pub labels: Vec<(i64, String)>,
}

/// Most nodes of the XML. Real files have a few per structure or parcel, a thousand in all.
const MOST_NODES: u32 = 500_000;

pub type Axes = [Axis; 2];

/// Parses the XML of a two-dimensional matrix.
pub fn parse_axes(xml: &[u8]) -> Result<Axes, Problem> {
    let end = xml.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
    let text = utf8("CIFTI XML", &xml[..end])?;
    let options = ParsingOptions { nodes_limit: MOST_NODES, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|e| Problem::new("CIFTI XML", "XML", e))?;
    let root = document.root_element();
    if root.tag_name().name() != "CIFTI" || !matches!(attribute(root, "Version")?, "2" | "2.0") {
        return Err(Problem::new("CIFTI XML", "a CIFTI element of version 2", root.tag_name().name()));
    }
    let mut found: [Option<Axis>; 2] = [None, None];
    for map in children(child(root, "Matrix")?, "MatrixIndicesMap") {
        let slot = match attribute(map, "AppliesToMatrixDimension")?.trim() {
            "0" => 0,
            "1" => 1,
            other => return Err(Problem::new("matrix dimension", "0 or 1", format!("{other:?}"))),
        };
        let is_first = found[slot].replace(axis(map)?).is_none();
        ensure(is_first, "matrix dimension", "one map each", format_args!("{slot} twice"))?;
    }
    match found {
        [Some(first), Some(second)] => Ok([first, second]),
        _ => Err(Problem::new("matrix dimensions", "maps of 0 and 1", "fewer")),
    }
}

fn axis(map: Node) -> Result<Axis, Problem> {
    match attribute(map, "IndicesMapToDataType")? {
        "CIFTI_INDEX_TYPE_SERIES" => series(map),
        "CIFTI_INDEX_TYPE_BRAIN_MODELS" => brain_models(map),
        "CIFTI_INDEX_TYPE_PARCELS" => {
            let names = children(map, "Parcel").map(|p| attribute(p, "Name").map(str::to_owned));
            Ok(Axis::Parcels(names.collect::<Result<_, _>>()?))
        }
        "CIFTI_INDEX_TYPE_LABELS" => {
            Ok(Axis::Labels(children(map, "NamedMap").map(label_map).collect::<Result<_, _>>()?))
        }
        "CIFTI_INDEX_TYPE_SCALARS" => Ok(Axis::Scalars(children(map, "NamedMap").count() as u64)),
        other => Err(Problem::new("IndicesMapToDataType", "a CIFTI-2 index type", format!("{other:?}"))),
    }
}

fn series(map: Node) -> Result<Axis, Problem> {
    let exponent: i32 = number(map, "SeriesExponent")?;
    let step: f64 = number(map, "SeriesStep")?;
    let is_sound = (-30..=30).contains(&exponent) && step.is_finite();
    ensure(is_sound, "series step", "a finite number", format_args!("{step} x 10^{exponent}"))?;
    let step = step * 10_f64.powi(exponent);
    let over_time = attribute(map, "SeriesUnit")? == "SECOND";
    let step_seconds = (over_time && step > 0.0).then_some(step);
    let start: f64 = number::<f64>(map, "SeriesStart")? * 10_f64.powi(exponent);
    Ok(Axis::Series { points: number(map, "NumberOfSeriesPoints")?, step_seconds, start })
}

fn brain_models(map: Node) -> Result<Axis, Problem> {
    let volume = children(map, "Volume").next().map(volume).transpose()?;
    let mut models: Vec<(u64, BrainModel)> = vec![];
    for node in children(map, "BrainModel") {
        let offset: u64 = number(node, "IndexOffset")?;
        let count: u64 = number(node, "IndexCount")?;
        let structure = attribute(node, "BrainStructure")?.to_owned();
        let (places, surface_vertices) = match attribute(node, "ModelType")? {
            "CIFTI_MODEL_TYPE_SURFACE" => {
                let vertices = indices(child(node, "VertexIndices")?)?;
                (Places::Vertices(vertices), Some(number(node, "SurfaceNumberOfVertices")?))
            }
            "CIFTI_MODEL_TYPE_VOXELS" => {
                let flat = indices(child(node, "VoxelIndicesIJK")?)?;
                let (voxels, rest) = flat.as_chunks::<3>();
                ensure(rest.is_empty(), &structure, "three numbers a voxel", flat.len())?;
                (Places::Voxels(voxels.to_vec()), None)
            }
            other => return Err(Problem::new("ModelType", "surface or voxels", format!("{other:?}"))),
        };
        ensure(places.len() as u64 == count, &structure, format_args!("{count} points"), places.len())?;
        models.push((offset, BrainModel { structure, surface_vertices, places }));
    }
    check_places(models.iter().map(|(_, m)| m), volume.as_ref())?;
    models.sort_by_key(|(offset, _)| *offset);
    let mut next = 0;
    for (offset, model) in &models {
        ensure(*offset == next, &model.structure, format_args!("an index offset of {next}"), offset)?;
        next += model.places.len() as u64;
    }
    Ok(Axis::BrainModels { models: models.into_iter().map(|(_, m)| m).collect(), volume })
}

/// Every point is one of its surface or grid, and there once.
fn check_places<'a>(models: impl Iterator<Item = &'a BrainModel>, volume: Option<&VolumeGrid>) -> Result<(), Problem> {
    let mut surfaces = HashSet::new();
    let mut seen_voxels = HashSet::new();
    let shape = volume.map_or([0; 3], |v| v.shape);
    for BrainModel { structure, surface_vertices, places } in models {
        let problem = |expected: String, found: String| Err(Problem::new(structure, expected, found));
        match places {
            Places::Vertices(vertices) => {
                let all = surface_vertices.unwrap_or(0);
                let mut seen = HashSet::new();
                ensure(surfaces.insert(structure), structure, "one surface of a structure", "a second")?;
                if let Some(v) = vertices.iter().find(|v| u64::from(**v) >= all) {
                    return problem(format!("vertices below {all}, as the surface has so many"), v.to_string());
                }
                if let Some(v) = vertices.iter().find(|v| !seen.insert(**v)) {
                    return problem("every vertex once".into(), format!("{v} twice"));
                }
            }
            Places::Voxels(voxels) => {
                if let Some(v) = voxels.iter().find(|v| v.iter().zip(shape).any(|(i, n)| u64::from(*i) >= n)) {
                    return problem(format!("voxels of a grid of sizes {shape:?}"), format!("{v:?}"));
                }
                if let Some(v) = voxels.iter().find(|v| !seen_voxels.insert(**v)) {
                    return problem("every voxel once".into(), format!("{v:?} twice"));
                }
            }
        }
    }
    Ok(())
}

fn volume(node: Node) -> Result<VolumeGrid, Problem> {
    let transform = child(node, "TransformationMatrixVoxelIndicesIJKtoXYZ")?;
    Ok(VolumeGrid {
        shape: exactly("VolumeDimensions", "three sizes", attribute(node, "VolumeDimensions")?)?,
        matrix: exactly("volume matrix", "sixteen numbers", transform.text().unwrap_or_default())?,
        meter_exponent: number(transform, "MeterExponent")?,
    })
}

fn label_map(node: Node) -> Result<LabelMap, Problem> {
    let name = children(node, "MapName").next().and_then(|n| n.text()).unwrap_or_default().to_owned();
    let table = child(node, "LabelTable")?;
    let label = |node: Node| Ok((number(node, "Key")?, node.text().unwrap_or_default().trim().to_owned()));
    let labels = children(table, "Label").map(label).collect::<Result<_, Problem>>()?;
    Ok(LabelMap { name, labels })
}

fn children<'a, 'i>(node: Node<'a, 'i>, name: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(move |c| c.is_element() && c.tag_name().name() == name)
}

fn child<'a, 'i>(node: Node<'a, 'i>, name: &'static str) -> Result<Node<'a, 'i>, Problem> {
    children(node, name).next().ok_or_else(|| Problem::new(node.tag_name().name(), format!("a {name} element"), "none"))
}

fn attribute<'a>(node: Node<'a, '_>, name: &str) -> Result<&'a str, Problem> {
    node.attribute(name).ok_or_else(|| Problem::new(node.tag_name().name(), format!("an attribute {name}"), "none"))
}

fn number<T: FromStr>(node: Node, name: &str) -> Result<T, Problem> {
    let text = attribute(node, name)?;
    let shown = || format!("{:?}", text.chars().take(40).collect::<String>());
    text.trim().parse().map_err(|_| Problem::new(name, "a number", shown()))
}

fn indices(node: Node) -> Result<Vec<u32>, Problem> {
    list(node.tag_name().name(), "whole numbers", node.text().unwrap_or_default())
}

/// Numbers separated by commas or blanks.
fn list<T: FromStr>(what: &str, expected: &str, text: &str) -> Result<Vec<T>, Problem> {
    let cells = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|cell| !cell.is_empty());
    cells.map(str::parse).collect::<Result<_, _>>().map_err(|_| Problem::new(what, expected, "others"))
}

fn exactly<T: FromStr, const N: usize>(what: &str, expected: &str, text: &str) -> Result<[T; N], Problem> {
    list(what, expected, text)?.try_into().map_err(|all: Vec<T>| Problem::new(what, expected, all.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_models(models: &str) -> Result<Axes, Problem> {
        let volume = r#"<Volume VolumeDimensions="2,2,2"><TransformationMatrixVoxelIndicesIJKtoXYZ MeterExponent="-3">1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1</TransformationMatrixVoxelIndicesIJKtoXYZ></Volume>"#;
        let series = r#"<MatrixIndicesMap AppliesToMatrixDimension="0" IndicesMapToDataType="CIFTI_INDEX_TYPE_SERIES" NumberOfSeriesPoints="9" SeriesExponent="0" SeriesStart="0" SeriesStep="1" SeriesUnit="SECOND"/>"#;
        let across = format!(
            r#"<MatrixIndicesMap AppliesToMatrixDimension="1" IndicesMapToDataType="CIFTI_INDEX_TYPE_BRAIN_MODELS">{volume}{models}</MatrixIndicesMap>"#
        );
        parse_axes(format!(r#"<CIFTI Version="2"><Matrix>{series}{across}</Matrix></CIFTI>"#).as_bytes())
    }

    fn surface(offset: usize, side: &str, vertices: &str) -> String {
        format!(
            r#"<BrainModel IndexOffset="{offset}" IndexCount="2" ModelType="CIFTI_MODEL_TYPE_SURFACE" BrainStructure="{side}" SurfaceNumberOfVertices="5"><VertexIndices>{vertices}</VertexIndices></BrainModel>"#
        )
    }

    fn voxels(indices: &str) -> String {
        format!(
            r#"<BrainModel IndexOffset="0" IndexCount="2" ModelType="CIFTI_MODEL_TYPE_VOXELS" BrainStructure="T"><VoxelIndicesIJK>{indices}</VoxelIndicesIJK></BrainModel>"#
        )
    }

    #[test]
    fn points_outside_their_surface_or_grid_and_points_given_twice_are_refused() {
        assert!(of_models(&(surface(0, "L", "0 4") + &surface(2, "R", "0 4"))).is_ok());
        assert!(of_models(&voxels("0 0 0 1 1 1")).is_ok());
        let found = |models: &str| of_models(models).unwrap_err().found;
        assert_eq!(found(&surface(0, "L", "0 5")), "5");
        assert_eq!(found(&surface(0, "L", "3 3")), "3 twice");
        assert_eq!(found(&(surface(0, "L", "0 4") + &surface(2, "L", "1 2"))), "a second");
        assert_eq!(found(&voxels("0 0 0 1 2 1")), "[1, 2, 1]");
        assert_eq!(found(&voxels("1 1 1 1 1 1")), "[1, 1, 1] twice");
    }
}
