//! Which calls to the kernel a container's commands can make (R141). The list equals in effect the
//! default of the usual container runtimes; who may do what with the calls that remain is decided by
//! users, capabilities and namespaces, not here.
//!
//! ```text
//!   refused     a call on the list, unless a capability of the container is there for it   EPERM
//!   unknown     clone3, calls newer than this list, the x32 forms                          ENOSYS
//!   foreign     programs of another architecture                                           killed
//! ```
//!
//! Two programs are set, since one has one answer: the kernel takes the stricter of the two.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use rustix::thread::CapabilitySet;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::raw;

/// Calls that no container makes, whatever its capabilities.
const NEVER: &[i64] = &[
    libc::SYS_add_key,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_nfsservctl,
    libc::SYS_pivot_root,
    libc::SYS_request_key,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_userfaultfd,
];

/// Calls of times past that only this architecture has.
#[cfg(target_arch = "x86_64")]
const NEVER_HERE: &[i64] = &[
    libc::SYS__sysctl,
    libc::SYS_afs_syscall,
    libc::SYS_getpmsg,
    libc::SYS_putpmsg,
    libc::SYS_security,
    libc::SYS_sysfs,
    libc::SYS_tuxcall,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_vserver,
];
#[cfg(not(target_arch = "x86_64"))]
const NEVER_HERE: &[i64] = &[];

/// `open_tree_attr`, which is newer than its name in the libraries.
const OPEN_TREE_ATTR: i64 = 467;

/// Calls that go with a capability; any of those named will do.
const WITH_CAPABILITY: &[(CapabilitySet, &[i64])] = &[
    (
        CapabilitySet::SYS_ADMIN,
        &[
            libc::SYS_fanotify_init,
            libc::SYS_fsconfig,
            libc::SYS_fsmount,
            libc::SYS_fsopen,
            libc::SYS_fspick,
            libc::SYS_lookup_dcookie,
            libc::SYS_mount,
            libc::SYS_mount_setattr,
            libc::SYS_move_mount,
            libc::SYS_open_tree,
            OPEN_TREE_ATTR,
            libc::SYS_quotactl,
            libc::SYS_quotactl_fd,
            libc::SYS_setdomainname,
            libc::SYS_sethostname,
            libc::SYS_setns,
            libc::SYS_umount2,
            libc::SYS_unshare,
        ],
    ),
    (CapabilitySet::SYS_ADMIN.union(CapabilitySet::BPF), &[libc::SYS_bpf]),
    (CapabilitySet::SYS_ADMIN.union(CapabilitySet::PERFMON), &[libc::SYS_perf_event_open]),
    (CapabilitySet::DAC_READ_SEARCH, &[libc::SYS_open_by_handle_at]),
    (CapabilitySet::SYS_BOOT, &[libc::SYS_reboot]),
    (CapabilitySet::SYS_CHROOT, &[libc::SYS_chroot]),
    (
        CapabilitySet::SYS_MODULE,
        &[libc::SYS_delete_module, libc::SYS_finit_module, libc::SYS_init_module],
    ),
    (
        CapabilitySet::SYS_NICE,
        &[
            libc::SYS_get_mempolicy,
            libc::SYS_mbind,
            libc::SYS_migrate_pages,
            libc::SYS_move_pages,
            libc::SYS_set_mempolicy,
            libc::SYS_set_mempolicy_home_node,
        ],
    ),
    (CapabilitySet::SYS_PACCT, &[libc::SYS_acct]),
    (
        CapabilitySet::SYS_PTRACE,
        &[libc::SYS_kcmp, libc::SYS_pidfd_getfd, libc::SYS_process_madvise],
    ),
    (
        CapabilitySet::SYS_TIME,
        &[
            libc::SYS_adjtimex,
            libc::SYS_clock_adjtime,
            libc::SYS_clock_settime,
            libc::SYS_settimeofday,
        ],
    ),
    (CapabilitySet::SYS_TTY_CONFIG, &[libc::SYS_vhangup]),
    (CapabilitySet::SYSLOG, &[libc::SYS_syslog]),
];

/// The same, of calls that only this architecture has.
#[cfg(target_arch = "x86_64")]
const WITH_CAPABILITY_HERE: &[(CapabilitySet, &[i64])] =
    &[(CapabilitySet::SYS_RAWIO, &[libc::SYS_ioperm, libc::SYS_iopl])];
#[cfg(not(target_arch = "x86_64"))]
const WITH_CAPABILITY_HERE: &[(CapabilitySet, &[i64])] = &[];

/// The numbers that were looked at when this list was made, Linux 6.18.
#[cfg(target_arch = "x86_64")]
const KNOWN: [RangeInclusive<i64>; 2] = [0..=334, 424..=469];
#[cfg(not(target_arch = "x86_64"))]
const KNOWN: [RangeInclusive<i64>; 2] = [0..=294, 424..=469];

/// Flags of `clone` that make namespaces.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// Sockets that containers have: those of files, the two of the internet, the kernel's, and packets,
/// which need a capability that holds for the network.
const FAMILIES: [libc::c_int; 5] =
    [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_PACKET];

/// What a process may take itself for: Linux, 32 bits of it, without a random layout, or a question.
const PERSONALITIES: [u64; 5] = [0x0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];

/// What puts words into a terminal that its user did not type, and what steers a console.
const TERMINAL: [u64; 2] = [0x5412, 0x541c];

/// Whether this machine can filter calls; why not.
pub(super) fn supported() -> Result<(), String> {
    programs(CapabilitySet::empty())?;
    raw::filters_are_supported().map_err(|error| format!("the kernel filters no calls: {error}"))
}

/// Filters the calls of this process and of all it becomes, for good. Whoever calls has given up new
/// privileges or may do everything in its user namespace.
pub(super) fn restrict(capabilities: CapabilitySet) -> Result<(), String> {
    for program in programs(capabilities)? {
        raw::filter_calls(&program).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn programs(capabilities: CapabilitySet) -> Result<[BpfProgram; 2], String> {
    let program = |rules, otherwise, matched| -> Result<BpfProgram, seccompiler::BackendError> {
        let here = TargetArch::try_from(std::env::consts::ARCH)?;
        SeccompFilter::new(rules, otherwise, matched, here)?.try_into()
    };
    let errno = |number: i32| SeccompAction::Errno(number.unsigned_abs());
    let make = || {
        let refused = refused(capabilities)?;
        Ok([
            program(refused, SeccompAction::Allow, errno(libc::EPERM))?,
            program(known(), errno(libc::ENOSYS), SeccompAction::Allow)?,
        ])
    };
    make().map_err(|error: seccompiler::BackendError| error.to_string())
}

type SeccompRules = BTreeMap<i64, Vec<SeccompRule>>;

fn refused(capabilities: CapabilitySet) -> Result<SeccompRules, seccompiler::BackendError> {
    let with = WITH_CAPABILITY.iter().chain(WITH_CAPABILITY_HERE);
    let missing = with.filter(|(one, _)| !one.intersects(capabilities)).flat_map(|(_, all)| *all);
    let mut rules: SeccompRules =
        NEVER.iter().chain(NEVER_HERE).chain(missing).map(whole).collect();
    if !capabilities.contains(CapabilitySet::SYS_ADMIN) {
        let flags = NAMESPACES.iter().map(|flag| u64::from(flag.unsigned_abs()));
        let flags = flags.map(|flag| when(0, [(SeccompCmpOp::MaskedEq(flag), flag)]));
        rules.insert(libc::SYS_clone, flags.collect::<Result<_, _>>()?);
    }
    let families = FAMILIES.map(|family| (SeccompCmpOp::Ne, u64::from(family.unsigned_abs())));
    for call in [libc::SYS_socket, libc::SYS_socketpair] {
        rules.insert(call, vec![when(0, families.clone())?]);
    }
    let others = PERSONALITIES.map(|personality| (SeccompCmpOp::Ne, personality));
    rules.insert(libc::SYS_personality, vec![when(0, others)?]);
    let terminal = TERMINAL.map(|request| when(1, [(SeccompCmpOp::Eq, request)]));
    rules.insert(libc::SYS_ioctl, terminal.into_iter().collect::<Result<_, _>>()?);
    Ok(rules)
}

fn known() -> SeccompRules {
    // Its flags are in memory, where no filter looks; libraries fall back to `clone`.
    let calls = KNOWN.into_iter().flatten().filter(|call| *call != libc::SYS_clone3);
    calls.map(|call| whole(&call)).collect()
}

/// A call whatever its arguments.
fn whole(call: &i64) -> (i64, Vec<SeccompRule>) {
    (*call, Vec::new())
}

/// A call where one argument, of which the kernel looks at 32 bits, fits all of these.
fn when<const N: usize>(
    argument: u8,
    all: [(SeccompCmpOp, u64); N],
) -> Result<SeccompRule, seccompiler::BackendError> {
    let condition =
        |(compare, value)| SeccompCondition::new(argument, SeccompCmpArgLen::Dword, compare, value);
    SeccompRule::new(all.into_iter().map(condition).collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;

    #[test]
    fn r141_the_filter_can_be_made_and_fits_the_kernel() {
        let programs = programs(CapabilitySet::empty()).unwrap();
        for program in &programs {
            assert!(program.len() < 4096, "{} instructions", program.len());
        }
    }

    #[test]
    fn r141_a_capability_opens_its_calls_and_no_others() {
        let none = refused(CapabilitySet::empty()).unwrap();
        for call in [libc::SYS_mount, libc::SYS_bpf, libc::SYS_keyctl, libc::SYS_chroot] {
            assert_eq!(none.get(&call), Some(&Vec::new()), "{call}");
        }
        assert_eq!(none[&libc::SYS_clone].len(), NAMESPACES.len());
        assert!(!none.contains_key(&libc::SYS_ptrace));
        let chroot = refused(CapabilitySet::SYS_CHROOT).unwrap();
        assert!(!chroot.contains_key(&libc::SYS_chroot));
        assert!(chroot.contains_key(&libc::SYS_mount));
        let all = refused(CapabilitySet::all()).unwrap();
        assert!(!all.contains_key(&libc::SYS_mount) && !all.contains_key(&libc::SYS_clone));
        assert!(all.contains_key(&libc::SYS_keyctl) && all.contains_key(&libc::SYS_io_uring_setup));
    }

    #[test]
    fn r141_calls_newer_than_the_list_are_unknown() {
        let known = known();
        assert!(known.contains_key(&libc::SYS_openat) && known.contains_key(&libc::SYS_mount));
        assert!(!known.contains_key(&libc::SYS_clone3));
        assert!(!known.contains_key(&470) && !known.contains_key(&0x4000_0000));
    }
}
