//! The size and the colours of pictures: one picture for light and for dark pages.

/// The size of a picture, in pixels.
pub const WIDTH: f64 = 880.0;
pub const HEIGHT: f64 = 552.0;
/// The corners of the frame, in pixels.
pub const LEFT: f64 = 78.0;
pub const RIGHT: f64 = WIDTH - 28.0;
pub const TOP: f64 = 86.0;
pub const BOTTOM: f64 = HEIGHT - 62.0;

/// Light unless the reader prefers dark. The picture brings its own background, so that it can be read
/// wherever it is put.
pub const STYLE: &str = "\
.back { fill: #ffffff; stroke: #d1d9e0 }
.grid { stroke: #e4e9ee }
.frame { stroke: #59636e }
.title { fill: #1f2328; font-size: 17px; font-weight: 600 }
.axis { fill: #1f2328; font-size: 13px }
.tick { fill: #59636e; font-size: 12px }
.roof { stroke: #59636e; stroke-width: 1.5 }
.roof-name { fill: #59636e; font-size: 12px }
.link { stroke: #8c959f; stroke-dasharray: 2 3 }
.ours { fill: #cf4a14; stroke: #cf4a14 }
.ours-name { fill: #b03c0c; font-size: 12px; font-weight: 600 }
.peer { fill: #ffffff; stroke: #2f6db3; stroke-width: 1.8 }
.peer-name { fill: #2f6db3; font-size: 12px }
.ours-line { stroke: #cf4a14; stroke-width: 1.8 }
.peer-line { stroke: #2f6db3; stroke-width: 1.8 }
.far { stroke-dasharray: 4 4; stroke-width: 1.2 }
@media (prefers-color-scheme: dark) {
.back { fill: #0d1117; stroke: #30363d }
.grid { stroke: #21262d }
.frame { stroke: #9198a1 }
.title, .axis { fill: #e6edf3 }
.tick, .roof-name { fill: #9198a1 }
.roof { stroke: #9198a1 }
.link { stroke: #6e7681 }
.ours { fill: #ff8a4c; stroke: #ff8a4c }
.ours-name { fill: #ff9d68 }
.peer { fill: #0d1117; stroke: #79b8ff }
.peer-name { fill: #79b8ff }
.ours-line { stroke: #ff8a4c }
.peer-line { stroke: #79b8ff }
}
";
