//! The first process of a sandbox in tests: it waits, collects the processes that nobody waits for, and
//! ends on TERM or INT. `cargo xtask setup` builds it with rustc alone into the image
//! `localhost/pause:1`. It knows no library, so that one static file is all there is in the image.

#![no_std]
#![no_main]

use core::arch::{asm, global_asm};

// The kernel enters here with nothing but a stack; what is called expects it aligned.
#[cfg(target_arch = "x86_64")]
global_asm!(".globl _start", "_start:", "xor ebp, ebp", "and rsp, -16", "call begin", "ud2");
#[cfg(target_arch = "aarch64")]
global_asm!(".globl _start", "_start:", "mov x29, xzr", "bl begin", "brk 0");

const SIGINT: u64 = 2;
const SIGTERM: u64 = 15;
const SIGCHLD: u64 = 17;
const SIG_BLOCK: usize = 0;
const WNOHANG: usize = 1;
/// Bytes of a set of signals.
const SET_SIZE: usize = 8;

#[cfg(target_arch = "x86_64")]
mod number {
    pub const RT_SIGPROCMASK: usize = 14;
    pub const WAIT4: usize = 61;
    pub const RT_SIGTIMEDWAIT: usize = 128;
    pub const EXIT_GROUP: usize = 231;
}

#[cfg(target_arch = "aarch64")]
mod number {
    pub const RT_SIGPROCMASK: usize = 135;
    pub const WAIT4: usize = 260;
    pub const RT_SIGTIMEDWAIT: usize = 137;
    pub const EXIT_GROUP: usize = 94;
}

/// Asks the kernel.
#[cfg(target_arch = "x86_64")]
unsafe fn ask(number: usize, a: usize, b: usize, c: usize, d: usize) -> isize {
    let answer: isize;
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => answer, in("rdi") a, in("rsi") b,
            in("rdx") c, in("r10") d, lateout("rcx") _, lateout("r11") _);
    }
    answer
}

/// Asks the kernel.
#[cfg(target_arch = "aarch64")]
unsafe fn ask(number: usize, a: usize, b: usize, c: usize, d: usize) -> isize {
    let answer: isize;
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") a as isize => answer, in("x1") b,
            in("x2") c, in("x3") d);
    }
    answer
}

/// Waits for signals one by one. They are blocked, so that none is lost between two waits.
#[unsafe(no_mangle)]
extern "C" fn begin() -> ! {
    let set: u64 = 1 << (SIGINT - 1) | 1 << (SIGTERM - 1) | 1 << (SIGCHLD - 1);
    let set = &raw const set as usize;
    unsafe {
        ask(number::RT_SIGPROCMASK, SIG_BLOCK, set, 0, SET_SIZE);
        loop {
            let signal = ask(number::RT_SIGTIMEDWAIT, set, 0, 0, SET_SIZE);
            if signal == SIGINT as isize || signal == SIGTERM as isize {
                ask(number::EXIT_GROUP, 0, 0, 0, 0);
            }
            // Several ends may come as one signal.
            while ask(number::WAIT4, usize::MAX, 0, WNOHANG, 0) > 0 {}
        }
    }
}

#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
