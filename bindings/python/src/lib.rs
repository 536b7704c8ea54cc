//! BDO for Python: thin classes and functions over the crates. What they take is prepared in `python/bdo`.

mod arrow;
mod cohort;
mod failure;
mod model;
mod series;
mod work;

use std::ffi::OsString;

use pyo3::prelude::*;

use failure::Failure;

/// Runs a verb with arguments as they are typed. Returns its answer as JSON, and whether some inputs were rejected.
#[pyfunction]
fn call(py: Python<'_>, arguments: Vec<String>, listener: Option<Py<PyAny>>) -> PyResult<(String, bool)> {
    work::refuse_after_fork()?;
    let called = work::outside(py, listener, |host| bdo::call(&arguments, host).map_err(Failure::of_call))?;
    Ok((called.json.to_string(), called.some_rejected))
}

/// The program `bdo`: arguments with its name first in, exit status out.
#[pyfunction]
fn program(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| bdo::program(arguments))
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<cohort::Cohort>()?;
    module.add_class::<model::Model>()?;
    module.add_function(wrap_pyfunction!(arrow::from_arrow, module)?)?;
    module.add_function(wrap_pyfunction!(call, module)?)?;
    module.add_function(wrap_pyfunction!(program, module)?)?;
    module.add_function(wrap_pyfunction!(cohort::store, module)?)?;
    Ok(())
}
