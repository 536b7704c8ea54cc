//! From source files to clean series: confounds, cleaning and BIDS trees, against references nobody here wrote.

mod cleaning;
mod confounds;
mod golden;
mod layouts;
