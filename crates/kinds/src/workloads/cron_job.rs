//! Rules of CronJob.

use serde_json::json;
use tenure_machinery::schedule::{self, Schedule};
use tenure_machinery::{Cx, Errors, Object, ObjectExt, Path, Rules};

use super::common::{
    default_template, has_moved, is_new, keep_status, name_warning, not_negative, shown, spec_of,
};
use super::job::{default_failure_policy, job_warnings, validate_job_spec};
use crate::podspec::text;

/// Rules of CronJob.
pub struct CronJobRules;

/// Jobs are named after their CronJob and the minute, in at most 63 bytes.
const NAME_BYTES_MAX: usize = 52;

impl Rules for CronJobRules {
    fn default(&self, object: &mut Object) {
        let spec = object.map_mut("spec");
        spec.set_default("concurrencyPolicy", "Allow");
        spec.set_default("suspend", false);
        spec.set_default("successfulJobsHistoryLimit", 3);
        spec.set_default("failedJobsHistoryLimit", 1);
        let job = spec.map_mut("jobTemplate");
        job.map_mut("metadata");
        // What Jobs default is filled when the Job is made, not here.
        let job = job.map_mut("spec");
        default_template(job);
        default_failure_policy(job);
    }

    fn prepare_create(&self, object: &mut Object, _cx: &Cx) {
        object.insert("status".to_owned(), json!({}));
    }

    fn prepare_update(&self, object: &mut Object, old: &Object, _cx: &Cx) {
        keep_status(object, old);
    }

    fn validate(&self, object: &Object, errors: &mut Errors) {
        let spec = spec_of(object);
        let path = Path::Root.field("spec");
        let at = path.field("schedule");
        if let Some(text) = spec.str_at(&["schedule"]).filter(|text| !text.is_empty()) {
            if let Err(why) = Schedule::parse(text, &jiff::tz::TimeZone::UTC) {
                errors.invalid(&at, format_args!("{text:?}"), &why);
            }
            if text.contains("TZ") {
                let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
                errors.invalid(&at, format_args!("{text:?}"), why);
            }
        }
        not_negative(spec, "startingDeadlineSeconds", &path, errors);
        if let Some(zone) = spec.str_at(&["timeZone"])
            && !schedule::is_zone(zone)
        {
            let why = format!("unknown time zone {zone}");
            errors.invalid(&path.field("timeZone"), format_args!("{zone:?}"), &why);
        }
        text::required_choice(
            spec.str_at(&["concurrencyPolicy"]).unwrap_or_default(),
            &["Allow", "Forbid", "Replace"],
            &path.field("concurrencyPolicy"),
            errors,
        );
        let empty = Object::new();
        let job = spec.map_at(&["jobTemplate", "spec"]).unwrap_or(&empty);
        let at = path.field("jobTemplate");
        let at = at.field("spec");
        validate_job_spec(job, &at, errors);
        if job.map_at(&["selector"]).is_some() {
            let why = "`selector` will be auto-generated";
            errors.invalid(&at.field("selector"), shown(job.get("selector")), why);
        }
        if job.bool_at(&["manualSelector"]) == Some(true) {
            errors.not_supported(&at.field("manualSelector"), "true", &["nil", "false"]);
        }
        not_negative(spec, "successfulJobsHistoryLimit", &path, errors);
        not_negative(spec, "failedJobsHistoryLimit", &path, errors);
        let name = object.name();
        if is_new(object) && name.len() > NAME_BYTES_MAX {
            let why = "must be no more than 52 bytes";
            errors.invalid(
                &Path::Root.field("metadata").field("name"),
                format_args!("{name:?}"),
                why,
            );
        }
    }

    fn validate_last(&self, object: &Object, errors: &mut Errors) {
        if spec_of(object).str_at(&["schedule"]).unwrap_or_default().is_empty() {
            errors.required(&Path::Root.field("spec").field("schedule"), "");
        }
    }

    fn warnings(&self, object: &Object, old: Option<&Object>) -> Vec<String> {
        let mut warnings = name_warning(object, old);
        if has_moved(object, old)
            && let Some(job) = object.map_at(&["spec", "jobTemplate", "spec"])
        {
            let path = Path::Root.field("spec");
            let path = path.field("jobTemplate");
            warnings.extend(job_warnings(job, &path.field("spec")));
        }
        warnings
    }
}
