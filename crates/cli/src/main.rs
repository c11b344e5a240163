//! The command line of gleed.

fn main() {}
