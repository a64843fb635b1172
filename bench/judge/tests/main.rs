//! Integration tests of this crate, built as one program so that they link only once. Each file is
//! a module.

mod battery;
mod sensitivity;
mod stored;
