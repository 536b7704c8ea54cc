//! Scans as grids of tokens, regions by windows of sixteen frames: what BrainLM and Brain-JEPA look at.

pub mod cost;
pub mod diffusion_map;
pub mod grid;
pub mod place;
pub mod trunk;
