//! Flags of `tenure envtest`. What they mean is decided elsewhere.

use std::path::PathBuf;

use clap::Args;

use super::path::path;

pub(super) const ENVTEST_EXAMPLES: &str = "\
Examples:
  eval \"$(tenure envtest bin/tenure)\" && go test ./...      a project that uses controller-runtime's envtest
  tenure envtest ~/.kubeapitest/k8s/1.38.0-linux-amd64      one that uses fabric8's JUnit extension
  TENURE_CONTROLLERS=none go test ./...                     a suite that wants no controllers

Environment, read by the programs in DIR:
  TENURE_CONTROLLERS   which controllers run: `all` (default), `none`, or names such as `gc,namespace`
  TENURE_LOG           as for every command";

#[derive(Debug, Args)]
pub(crate) struct EnvtestFlags {
    /// The folder, for KUBEBUILDER_ASSETS; it is made if need be
    #[arg(value_name = "DIR", value_parser = path())]
    pub(crate) folder: PathBuf,

    /// The kubectl to link there [default: the first one in PATH]
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) kubectl: Option<PathBuf>,

    /// Replace programs in DIR that are not Tenure's
    #[arg(long)]
    pub(crate) force: bool,
}
