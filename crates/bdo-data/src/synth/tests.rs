//! Properties of whole scans.
