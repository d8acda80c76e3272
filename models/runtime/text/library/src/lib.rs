//! See ../README.md. `text_library.h` is what C++ sees of this.

// A stable compiler allows this feature if RUSTC_BOOTSTRAP names this crate. budget.rs uses it.
#![feature(alloc_error_hook)]

mod border;
mod budget;
mod filters;
mod grammar;
mod grammar_border;
mod jinja;
mod marks;
mod python;
mod template_border;
mod templates;
mod tokenizer;
mod tokens;
