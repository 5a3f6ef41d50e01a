//! Petri.
