//! The plain code as the CPU at hand runs it best.

/// Runs plain code compiled for a CPU that has an instruction for a fused multiply-add, where this one has. The code is
/// the same and so is every bit of its result: `mul_add` is rounded once with the instruction and without it, but
/// without it each one is a call of a function. What is not inlined here is compiled without it: closures say so.
#[inline(always)]
pub fn with_fused_multiply_add<T>(run: impl FnOnce() -> T) -> T {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn fused<T>(run: impl FnOnce() -> T) -> T {
            run()
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the CPU has what the function is compiled for.
            return unsafe { fused(run) };
        }
    }
    run()
}
