//! Region values at any time with standard deviations that were checked on people the model has not seen: calibration of
//! the posterior of `bdo_model::posterior`, scores, forecasts, checks, and the tables that are written.

pub mod calibration;
pub mod forecast;
pub mod invariance;
pub mod output;
pub mod scan_answer;
pub mod score;
