//! What this process takes of its machine, under the names that every exporter uses. On systems without
//! `/proc` nothing is shown.

use std::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use rustix::process::{Resource, getrlimit};

/// Shows the time, memory and files of this process at each scrape.
#[derive(Debug)]
pub struct ProcessCollector;

/// What `/proc/self/stat` says.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ProcessStat {
    /// In user and system mode, all threads together.
    cpu_ticks: u64,
    /// Since the machine was started.
    start_ticks: u64,
    virtual_bytes: u64,
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let Some(stat) = ProcessStat::read(&text) else { return Ok(()) };
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        let cpu = ConstCounter::new(stat.cpu_ticks as f64 / per_second);
        let about = "Time that this process used processors, in user and system mode.";
        show(&mut encoder, "process_cpu", about, Some(&Unit::Seconds), &cpu)?;
        if let Some(boot) = boot_second() {
            let start = ConstGauge::new(boot as f64 + stat.start_ticks as f64 / per_second);
            let about = "When this process was started, in seconds since 1970.";
            show(&mut encoder, "process_start_time", about, Some(&Unit::Seconds), &start)?;
        }
        if let Some(bytes) = resident_bytes() {
            let about = "Memory of this process that is in RAM.";
            let bytes = ConstGauge::new(bytes);
            show(&mut encoder, "process_resident_memory", about, Some(&Unit::Bytes), &bytes)?;
        }
        let about = "Addresses that this process has taken, used or not.";
        let bytes = ConstGauge::new(stat.virtual_bytes);
        show(&mut encoder, "process_virtual_memory", about, Some(&Unit::Bytes), &bytes)?;
        if let Ok(entries) = fs::read_dir("/proc/self/fd") {
            // The folder itself is open while it is read.
            let open = ConstGauge::new(entries.count().saturating_sub(1) as u64);
            show(
                &mut encoder,
                "process_open_fds",
                "Files and sockets that are open.",
                None,
                &open,
            )?;
        }
        if let Some(most) = getrlimit(Resource::Nofile).current {
            let about = "How many files and sockets may be open.";
            show(&mut encoder, "process_max_fds", about, None, &ConstGauge::new(most))?;
        }
        Ok(())
    }
}

impl ProcessStat {
    fn read(text: &str) -> Option<ProcessStat> {
        // The name of the program stands in parentheses and may hold any letter.
        let (_, fields) = text.rsplit_once(") ")?;
        let mut fields = fields.split_ascii_whitespace().skip(11).map(str::parse::<u64>);
        let mut next = || fields.next()?.ok();
        let (user, system) = (next()?, next()?);
        // Other fields may be negative, so they are passed over unread.
        let mut fields = fields.skip(6);
        let mut next = || fields.next()?.ok();
        let (start_ticks, virtual_bytes) = (next()?, next()?);
        Some(ProcessStat { cpu_ticks: user.saturating_add(system), start_ticks, virtual_bytes })
    }
}

/// Writes one family with one value.
fn show(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    about: &str,
    unit: Option<&Unit>,
    value: &impl EncodeMetric,
) -> fmt::Result {
    value.encode(encoder.encode_descriptor(name, about, unit, value.metric_type())?)
}

/// When the machine was started.
fn boot_second() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// Memory in RAM as the kernel counts it.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn a_program_of_any_name_is_read() {
        let text =
            "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 4 0 8800 123456 9 1\n";
        let expected = ProcessStat { cpu_ticks: 300, start_ticks: 8800, virtual_bytes: 123_456 };
        assert_eq!(ProcessStat::read(text), Some(expected));
        assert_eq!(ProcessStat::read(""), None);
        assert_eq!(ProcessStat::read("7 (a) S 1 2"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_this_process_takes_is_shown_under_the_usual_names() {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessCollector));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("no {name} in\n{text}")).parse().unwrap()
        };
        assert!(value("process_cpu_seconds_total") >= 0.0);
        assert!(value("process_resident_memory_bytes") > 100_000.0);
        assert!(value("process_virtual_memory_bytes") > value("process_resident_memory_bytes"));
        assert!(value("process_open_fds") >= 3.0);
        assert!(value("process_max_fds") >= value("process_open_fds"));
        let folder = fs::metadata("/proc/self").unwrap().modified().unwrap();
        let begun = folder.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((value("process_start_time_seconds") - begun).abs() < 60.0, "{text}");
    }
}
