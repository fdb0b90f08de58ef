//! The command as a person would type it.

mod cli;

mod bad_input;
mod corpora;
mod crash;
mod search;
mod store;
