//! What the tests inside this crate share: one device, which keeps its compiled kernels from test to test.

use std::sync::OnceLock;

use crate::{Choice, Gpu};

/// The adapter that `GLEED_TEST_ADAPTER` names, else the best one, be it software.
pub(crate) fn gpu() -> &'static Gpu {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    GPU.get_or_init(|| {
        let named = std::env::var("GLEED_TEST_ADAPTER").ok();
        let choice = named.as_deref().map_or(Choice::BestOrSoftware, Choice::Named);
        Gpu::open(choice).expect("a GPU, be it software")
    })
}
