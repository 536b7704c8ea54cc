//! Pages as text.
