//! `bdo ingest` as people run it: the real program on generated trees.
#![allow(clippy::unwrap_used)]

mod derivatives;
mod edges;
mod fixture;
mod grayordinates;
mod hostile;
mod kill;
mod processes;
mod recipes;
mod tables;
