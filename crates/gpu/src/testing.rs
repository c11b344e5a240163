//! What the tests inside this crate share: one device, which keeps its compiled kernels from test to test.

use std::sync::OnceLock;

use crate::{Gpu, Selection};

/// The adapter that `GLEED_TEST_ADAPTER` names, else the best one, be it software.
pub(crate) fn gpu() -> &'static Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    GPU.get_or_init(|| {
        let named = std::env::var("GLEED_TEST_ADAPTER").ok();
        let choice = named.as_deref().map_or(Selection::BestOrSoftware, Selection::Named);
        Gpu::open(choice).expect("a GPU, be it software")
    })
}
