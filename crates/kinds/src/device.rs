//! Names of what the group resource speaks of: drivers, pools, devices.

use tenure_machinery::{Errors, Path, name};

const DRIVER_BYTES_MAX: usize = 63;
const POOL_BYTES_MAX: usize = 253;

/// A subdomain of at most 63 bytes; its case does not matter.
pub(crate) fn validate_driver_name(driver: &str, path: &Path<'_>, errors: &mut Errors) {
    if driver.is_empty() {
        return errors.required(path, "");
    }
    if driver.len() > DRIVER_BYTES_MAX {
        errors.too_long(path, DRIVER_BYTES_MAX);
    }
    if let Some(why) = name::dns_subdomain(&driver.to_ascii_lowercase()) {
        errors.invalid(path, format_args!("{driver:?}"), why);
    }
}

/// Subdomains between slashes.
pub(crate) fn validate_pool_name(pool: &str, path: &Path<'_>, errors: &mut Errors) {
    if pool.is_empty() {
        return errors.required(path, "");
    }
    if pool.len() > POOL_BYTES_MAX {
        return errors.too_long(path, POOL_BYTES_MAX);
    }
    for why in pool.split('/').filter_map(name::dns_subdomain) {
        errors.invalid(path, format_args!("{pool:?}"), why);
    }
}

/// A label.
pub(crate) fn validate_device_name(device: &str, path: &Path<'_>, errors: &mut Errors) {
    if let Some(why) = name::dns_label(device) {
        errors.invalid(path, format_args!("{device:?}"), why);
    }
}
