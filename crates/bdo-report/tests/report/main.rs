//! Pages as text, as a browser sees them, and as they are served.
#![allow(clippy::unwrap_used)]

mod browser;
mod fixture;
mod hostile;
mod live;
mod text;
mod webdriver;
