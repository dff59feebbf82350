//! `doctor` on clusters that live, and what `--try` makes and removes.

use tenure_attach::doctor::{DoctorVerdict, TrialError, cluster_facts, judge, try_downward};
use tenure_attach::install;
use tenure_cluster::Cluster;

use crate::town::{SERVER, Town};

#[tokio::test(flavor = "multi_thread")]
async fn a82_what_is_said_of_a_cluster_that_lives() {
    let town = Town::start().await;
    let facts = cluster_facts(&town.client).await.unwrap();
    assert_eq!(
        (facts.native_path, facts.native_kinds, facts.denied.len()),
        (Some(false), false, 0)
    );
    let verdicts = |facts| judge(facts).findings.iter().map(|one| one.verdict).collect::<Vec<_>>();
    assert_eq!(
        verdicts(&facts),
        [DoctorVerdict::Works, DoctorVerdict::Works, DoctorVerdict::Perhaps]
    );
    let nobody = cluster_facts(&town.cluster.client_as("nobody", &[])).await.unwrap();
    assert_eq!(
        (nobody.native_path, nobody.denied.len(), nobody.authorization_config),
        (None, 13, None)
    );
    assert_eq!(verdicts(&nobody), [DoctorVerdict::Perhaps; 3]);
    town.apply_all(&install::downward(SERVER, None).unwrap()).await;
    let facts = cluster_facts(&town.client).await.unwrap();
    assert_eq!(facts.installed[0].feature, "downward");
}

#[tokio::test(flavor = "multi_thread")]
async fn a58_a_server_that_has_it_all_says_so() {
    let cluster = Cluster::start().await.unwrap();
    let facts = cluster_facts(&cluster.client()).await.unwrap();
    assert_eq!((facts.native_path, facts.native_kinds), (Some(true), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a82_a_trial_tells_of_nine_kinds_and_leaves_nothing() {
    let town = Town::start().await;
    let before = town.inventory().await;
    let tried = try_downward(&town.client, SERVER).await.unwrap();
    let problems: Vec<_> = tried.iter().filter(|one| one.problem.is_some()).collect();
    assert!(tried.len() == 9 && problems.is_empty(), "{problems:?}");
    town.until("/api/v1/namespaces", "gone", |list| !list.to_string().contains("tenure-trial"))
        .await;
    assert_eq!(town.inventory().await, before);
    town.made("/api/v1/namespaces", &serde_json::json!({ "metadata": { "name": "tenure-trial" } }))
        .await;
    let busy = try_downward(&town.client, SERVER).await.unwrap_err();
    assert!(matches!(busy, TrialError::Busy), "{busy}");
    let nobody = town.cluster.client_as("nobody", &[]);
    let refused = try_downward(&nobody, SERVER).await.unwrap_err();
    assert_eq!(refused.request().unwrap().code(), Some(403));
}
