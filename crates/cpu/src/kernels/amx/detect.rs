//! Whether AMX can be used: the processor must have it, and the system must let this process.

use std::arch::asm;
use std::sync::OnceLock;

use crate::kernels::avx512::Avx512;

/// Proof that this machine has AMX for bytes, and that this process may use it.
#[derive(Debug, Clone, Copy)]
pub struct Amx(());

impl Amx {
    /// The proof, where the machine has it and the system agrees.
    pub fn detect() -> Option<Amx> {
        static FOUND: OnceLock<bool> = OnceLock::new();
        let found = Avx512::detect().is_some() && *FOUND.get_or_init(is_usable);
        found.then_some(Amx(()))
    }
}

/// Asks the processor, then the system: tile registers are large, and a process must request them once.
fn is_usable() -> bool {
    let features = std::arch::x86_64::__cpuid_count(7, 0).edx;
    let (tiles, bytes) = (features >> 24 & 1, features >> 25 & 1);
    tiles == 1 && bytes == 1 && request_permission()
}

#[cfg(target_os = "linux")]
fn request_permission() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const REQUEST_STATE: i64 = 0x1023;
    const TILE_DATA: i64 = 18;
    let result: i64;
    // SAFETY: the call changes nothing but which registers this process may use, and touches no memory;
    // the registers that the kernel overwrites are named.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") REQUEST_STATE,
            in("rsi") TILE_DATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result == 0
}

#[cfg(not(target_os = "linux"))]
fn request_permission() -> bool {
    false
}
