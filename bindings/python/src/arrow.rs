//! Tables and arrays of Arrow through its C interface: those of pyarrow, polars and whoever else offers it come in as they lie.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use arrow_array::ffi_stream::{ArrayStreamReader, FFI_ArrowArrayStream};
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, FixedSizeListArray, StructArray, make_array};
use arrow_schema::{ArrowError, DataType};
use numpy::ndarray::ArrayView2;
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::failure::Failure;

/// Keeps what a view looks at.
#[pyclass(frozen)]
struct Held {
    list: FixedSizeListArray,
}

/// Names of columns and values of a table.
type Table<'py> = (Option<Vec<String>>, Bound<'py, PyArray2<f32>>);

/// Names of the columns, where it has columns, and its values as frames x regions. Rows of float32 stay where they are; columns
/// lie one after the other, so their values have to be brought together, which is done once.
#[pyfunction]
pub(crate) fn from_arrow<'py>(py: Python<'py>, table: &Bound<'py, PyAny>) -> PyResult<Table<'py>> {
    let (kind, chunks) = imported(table)?;
    let rows: usize = chunks.iter().map(Array::len).sum();
    let raise = |failure: Failure| failure.into_exception(py);
    match &kind {
        DataType::Struct(fields) => {
            let names = fields.iter().map(|field| field.name().clone()).collect();
            let width = fields.len();
            let values = py.detach(|| of_columns(&chunks, rows, width)).map_err(raise)?;
            Ok((Some(names), PyArray1::from_vec(py, values).reshape([rows, width])?))
        }
        DataType::FixedSizeList(_, width) => {
            let width = *width as usize;
            if let [chunk] = chunks.as_slice()
                && let Some(list) = plain(chunk.as_fixed_size_list())
            {
                return Ok((None, view(py, list, width)?));
            }
            let values = py.detach(|| of_lists(&chunks, rows, width)).map_err(raise)?;
            Ok((None, PyArray1::from_vec(py, values).reshape([rows, width])?))
        }
        other => Err(raise(Failure::of_data(format!("series: expected columns or rows of numbers, found {other}")))),
    }
}

/// The type of an object's values and its chunks, by the capsules it offers.
fn imported(table: &Bound<'_, PyAny>) -> PyResult<(DataType, Vec<ArrayRef>)> {
    let raise = |error: ArrowError| Failure::of_data(format!("series: {error}")).into_exception(table.py());
    if table.hasattr("__arrow_c_stream__")? {
        let capsule = table.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
        let stream = capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast::<FFI_ArrowArrayStream>();
        // SAFETY: a capsule of this name holds a stream, which is moved out of it.
        let reader = unsafe { ArrayStreamReader::from_raw(stream.as_ptr()) }.map_err(raise)?;
        let kind = arrow_array::ArrayReader::field(&reader).data_type().clone();
        return Ok((kind, reader.collect::<Result<_, _>>().map_err(raise)?));
    }
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) =
        table.call_method0("__arrow_c_array__")?.extract()?;
    let schema = schema.pointer_checked(Some(c"arrow_schema"))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(c"arrow_array"))?.cast::<FFI_ArrowArray>();
    // SAFETY: capsules of these names hold an array, which is moved out of its own, and its schema, which lives as long as its own.
    let data = unsafe { from_ffi(FFI_ArrowArray::from_raw(array.as_ptr()), schema.as_ref()) }.map_err(raise)?;
    Ok((data.data_type().clone(), vec![make_array(data)]))
}

/// A list whose values are already frames x regions of float32, none missing.
fn plain(list: &FixedSizeListArray) -> Option<FixedSizeListArray> {
    let values = list.values().as_primitive_opt::<Float32Type>()?;
    (list.null_count() == 0 && values.null_count() == 0).then(|| list.clone())
}

/// An array of numpy over the values of a list.
fn view(py: Python<'_>, list: FixedSizeListArray, width: usize) -> PyResult<Bound<'_, PyArray2<f32>>> {
    let held = Bound::new(py, Held { list })?;
    let list = &held.get().list;
    let values = list.values().as_primitive::<Float32Type>().values();
    let rows = ArrayView2::from_shape((list.len(), width), values)
        .map_err(|error| Failure::of_data(format!("series: {error}")).into_exception(py))?;
    // SAFETY: `held` owns the values, which are never changed, and becomes the base of the array.
    let array = unsafe { PyArray2::borrow_from_array(&rows, held.clone().into_any()) };
    array.readwrite().make_nonwriteable();
    Ok(array)
}

fn of_columns(chunks: &[ArrayRef], rows: usize, width: usize) -> Result<Vec<f32>, Failure> {
    let mut values = vec![f32::NAN; rows * width];
    let mut rest = values.as_mut_slice();
    for chunk in chunks {
        let table: &StructArray = chunk.as_struct();
        let (here, later) = rest.split_at_mut(table.len() * width);
        if !here.is_empty() {
            for (at, column) in table.columns().iter().enumerate() {
                spread(column, &mut here[at..], width)?;
            }
        }
        rest = later;
    }
    Ok(values)
}

fn of_lists(chunks: &[ArrayRef], rows: usize, width: usize) -> Result<Vec<f32>, Failure> {
    let mut values = vec![f32::NAN; rows * width];
    let mut rest = values.as_mut_slice();
    for chunk in chunks {
        let list = chunk.as_fixed_size_list();
        let (here, later) = rest.split_at_mut(list.len() * width);
        spread(list.values(), here, 1)?;
        for row in (0..list.len()).filter(|&row| list.is_null(row)) {
            here[row * width..(row + 1) * width].fill(f32::NAN);
        }
        rest = later;
    }
    Ok(values)
}

/// Writes the numbers of an array to every `step`-th place; what is missing stays as it is.
#[allow(clippy::cast_lossless)] // One line for numbers of every kind.
fn spread(from: &Arc<dyn Array>, to: &mut [f32], step: usize) -> Result<(), Failure> {
    let places = to.iter_mut().step_by(step);
    macro_rules! numbers {
        ($($kind:ty),*) => {
            $(if let Some(from) = from.as_primitive_opt::<$kind>() {
                places.zip(from).for_each(|(to, x)| if let Some(x) = x { *to = x as f32 });
                return Ok(());
            })*
        };
    }
    numbers!(Float32Type, Float64Type);
    numbers!(Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type);
    if let Some(from) = from.as_primitive_opt::<Float16Type>() {
        places.zip(from).for_each(|(to, x)| {
            if let Some(x) = x {
                *to = x.to_f32();
            }
        });
    } else if let Some(from) = from.as_boolean_opt() {
        places.zip(from).for_each(|(to, x)| {
            if let Some(x) = x {
                *to = f32::from(u8::from(x));
            }
        });
    } else if *from.data_type() != DataType::Null {
        return Err(Failure::of_data(format!("series: expected real numbers, found {}", from.data_type())));
    }
    Ok(())
}
