//! Whole texts through outline, offsets, leaves and check.

mod commonmark;
mod cuts;
mod flavours;
mod support;
