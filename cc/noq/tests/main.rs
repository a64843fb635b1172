//! The integration tests of this crate as one program, which links only once. Each file here is a
//! module.

mod examples;
