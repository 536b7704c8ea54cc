//! A label map on grey matter.

use std::collections::HashMap;
use std::path::Path;

use super::file::CiftiFile;
use super::xml::{Axis, BrainModel, Places, VolumeGrid};
use crate::atlas::image::{RegionMap, check_count, known_region, points_of};
use crate::atlas::{Hemisphere, side_of_name};
use crate::problem::{InContent, Problem, ReadError, ensure};
use crate::region::{Region, ensure_different};

/// A `.dlabel.nii` atlas: labels of points of grey matter.
#[derive(Debug, Clone, PartialEq)]
pub struct CiftiLabels {
    pub map: RegionMap,
    pub models: Vec<BrainModel>,
    pub volume: Option<VolumeGrid>,
}

impl CiftiLabels {
    /// Reads the first map of a label file. Sides in names are checked against the structures the points are in.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let mut file = CiftiFile::open(path)?;
        let [Axis::Labels(maps), Axis::BrainModels { models, volume }] = file.axes.clone() else {
            let found = file.kinds();
            return Err(file.problem(Problem::new("axes", "labels and brain models (.dlabel.nii)", found)));
        };
        let mut warnings = vec![];
        let Some(map) = maps.first() else {
            return Err(file.problem(Problem::new("label maps", "at least one", "none")));
        };
        if maps.len() > 1 {
            warnings.push(format!("of {} label maps the first is used: {}", maps.len(), map.name));
        }
        let mut keys: Vec<i64> = vec![];
        let mut row = vec![];
        while file.next_row(&mut row)? {
            let key = row[0];
            ensure(key.is_finite() && key.fract() == 0.0 && key.abs() < 1e9, "label", "whole numbers", key)
                .in_content(path)?;
            keys.push(key as i64);
        }
        let used: std::collections::HashSet<i64> = keys.iter().copied().collect();
        let named = |(key, name): &&(i64, String)| *key > 0 && !name.is_empty() && name != "???";
        let (present, absent): (Vec<_>, Vec<_>) =
            map.labels.iter().filter(named).partition(|(key, _)| used.contains(key));
        if !absent.is_empty() {
            warnings.push(format!("{} labels of the table have no point and no column", absent.len()));
        }
        if let Some(key) = used.iter().filter(|k| **k > 0 && !map.labels.iter().any(|(key, _)| key == *k)).min() {
            return Err(file.problem(Problem::new("label table", format!("a label of key {key}"), "none")));
        }
        let names: Vec<&str> = present.iter().map(|(_, name)| name.as_str()).collect();
        ensure_different("label table", names.iter().copied()).in_content(path)?;
        check_count(present.len()).in_content(path)?;
        let column_of: HashMap<i64, u16> =
            present.iter().enumerate().map(|(i, (key, _))| (*key, i as u16 + 1)).collect();
        ensure(column_of.len() == present.len(), "label table", "different keys", "a key twice").in_content(path)?;
        let columns: Vec<u16> = keys.iter().map(|key| column_of.get(key).copied().unwrap_or(0)).collect();
        check_structures(&models, &columns, &names).map_err(|p| file.problem(p))?;
        let points = points_of(&columns, present.len());
        let own =
            |name: &&str| Region { hemisphere: side_of_name(name).map(|h| h.to_string()), ..Region::named(*name) };
        let regions = names.iter().map(|name| known_region(name).unwrap_or_else(|| own(name))).collect();
        let ids = present.iter().map(|(key, _)| *key as u32).collect();
        let (path, blake3) = (path.to_path_buf(), file.finish()?);
        Ok(Self { map: RegionMap { path, blake3, regions, ids, columns, points, warnings }, models, volume })
    }

    /// Column of every point of other brain models, matched by structure and vertex or by voxel, never by position.
    pub(super) fn columns_of(&self, models: &[BrainModel], volume: Option<&VolumeGrid>) -> Result<Vec<u16>, Problem> {
        if models == self.models && volume == self.volume.as_ref() {
            return Ok(self.map.columns.clone());
        }
        let mut vertices: HashMap<(&str, u32), u16> = HashMap::new();
        let mut voxels: HashMap<[u32; 3], u16> = HashMap::new();
        let mut surfaces: HashMap<&str, Option<u64>> = HashMap::new();
        let mut columns = self.map.columns.iter().copied();
        for model in &self.models {
            surfaces.insert(&model.structure, model.surface_vertices);
            match &model.places {
                Places::Vertices(own) => {
                    vertices.extend(own.iter().zip(&mut columns).map(|(v, c)| ((model.structure.as_str(), *v), c)));
                }
                Places::Voxels(own) => voxels.extend(own.iter().copied().zip(&mut columns)),
            }
        }
        if let (Some(own), Some(other)) = (&self.volume, volume)
            && own != other
        {
            let shown = |v: &VolumeGrid| format!("sizes {:?}, matrix {:?}", v.shape, v.matrix);
            return Err(Problem::new("volume grid", format!("the atlas' ({})", shown(own)), shown(other)));
        }
        let mut found = vec![];
        for model in models {
            let structure = model.structure.as_str();
            match (&model.places, surfaces.get(structure)) {
                (Places::Vertices(_), Some(Some(own))) if Some(*own) != model.surface_vertices => {
                    let other = model.surface_vertices.unwrap_or(0);
                    return Err(Problem::new(structure, format!("{own} vertices as in the atlas"), other));
                }
                (Places::Vertices(own), _) => {
                    found.extend(own.iter().map(|v| vertices.get(&(structure, *v)).copied().unwrap_or(0)));
                }
                (Places::Voxels(own), _) => found.extend(own.iter().map(|v| voxels.get(v).copied().unwrap_or(0))),
            }
        }
        Ok(found)
    }
}

/// Refuses a region that is named after one side and lies mostly in structures of the other.
fn check_structures(models: &[BrainModel], columns: &[u16], names: &[&str]) -> Result<(), Problem> {
    let mut balance = vec![0_i64; names.len()];
    let mut columns = columns.iter();
    for model in models {
        let side = match model.structure.rsplit('_').next() {
            Some("LEFT") => -1,
            Some("RIGHT") => 1,
            _ => 0,
        };
        for column in columns.by_ref().take(model.places.len()).filter_map(|c| c.checked_sub(1)) {
            balance[usize::from(column)] += side;
        }
    }
    for (name, balance) in names.iter().zip(&balance) {
        let (named, lies) = match side_of_name(name) {
            Some(Hemisphere::Left) if *balance > 0 => ("left", "right"),
            Some(Hemisphere::Right) if *balance < 0 => ("right", "left"),
            _ => continue,
        };
        let what = format!("region {name:?}");
        return Err(Problem::new(what, format!("points on the {named} as its name says"), format!("on the {lies}")));
    }
    Ok(())
}
