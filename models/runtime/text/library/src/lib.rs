//! See ../README.md. `text_library.h` is what C++ sees of this.

// Stable compilers take it for this crate where RUSTC_BOOTSTRAP names it: see budget.rs.
#![feature(alloc_error_hook)]

mod border;
mod budget;
mod filters;
mod jinja;
mod marks;
mod python;
mod template_border;
mod templates;
mod tokenizer;
mod tokens;
