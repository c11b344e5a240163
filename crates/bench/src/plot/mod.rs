//! Pictures of measurements, as SVG documents that need nothing else: the roofline of a model on a machine, and the
//! curves of a server under load.

mod axis;
mod labels;
mod load;
mod roofline;
mod style;
mod svg;

pub use load::load_curves;
pub use roofline::roofline;
