//! Errors of the crates as exceptions, with the sentences of the program.

use bdo_train::error::TrainError;
use std::error::Error;

use bdo::CallError;
use bdo_data::cohort::CohortError;
use bdo_data::durable::FileError;
use bdo_eval::error::EvalError;
use bdo_model::batch::BatchError;
use bdo_model::error::ModelError;
use bdo_model::weights::{ContractError, Problem};
use pyo3::prelude::*;

/// An exception to be: the name of its class in `bdo._errors`, and what it says.
#[derive(Debug)]
pub(crate) struct Failure {
    class: &'static str,
    message: String,
}

impl Failure {
    /// Data that cannot be used.
    pub(crate) fn of_data(message: impl ToString) -> Self {
        Self { class: "DataError", message: message.to_string() }
    }

    /// A verb that could not do its work.
    pub(crate) fn of_call(error: CallError) -> Self {
        let class = match &error {
            CallError::Usage(_) => "UsageError",
            CallError::Failed(error) => error.chain().find_map(class).unwrap_or("Error"),
        };
        Self { class, message: error.to_string() }
    }

    pub(crate) fn into_exception(self, py: Python<'_>) -> PyErr {
        let made = py.import("bdo._errors").and_then(|errors| errors.getattr(self.class)?.call1((self.message,)));
        made.map_or_else(|error| error, PyErr::from_value)
    }
}

macro_rules! said_as_it_is {
    ($($error:ty),*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self { class: class(&error).unwrap_or("Error"), message: error.to_string() }
            }
        })*
    };
}

said_as_it_is!(CohortError, EvalError, ModelError, ContractError, BatchError);

/// The class of an error of ours.
fn class(error: &(dyn Error + 'static)) -> Option<&'static str> {
    if let Some(error) = error.downcast_ref::<EvalError>() {
        return match error {
            EvalError::Model(error) => class(error),
            _ => Some("Error"),
        };
    }
    if let Some(error) = error.downcast_ref::<TrainError>() {
        return match error {
            TrainError::Cohort(error) => class(error),
            TrainError::Model(error) => class(error),
            _ => Some("Error"),
        };
    }
    if let Some(error) = error.downcast_ref::<ModelError>() {
        return match error {
            ModelError::File(error) => class(error),
            ModelError::Cohort(error) => class(error),
            ModelError::Contract(error) => class(error),
            ModelError::Weights(error) if matches!(error.problem, Problem::File(_)) => Some("FileError"),
            ModelError::Batch(error) => class(error),
            _ => Some("ModelError"),
        };
    }
    if let Some(error) = error.downcast_ref::<CohortError>() {
        return match error {
            CohortError::File(error) => class(error),
            CohortError::Scan { .. } => Some("DataError"),
            _ => Some("CohortError"),
        };
    }
    if error.is::<FileError>() {
        return Some("FileError");
    }
    (error.is::<ContractError>() || error.is::<BatchError>()).then_some("DataError")
}
