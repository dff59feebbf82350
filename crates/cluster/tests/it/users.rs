//! Who a client is: certificates, tokens, kubeconfigs.

use k8s_openapi::api::authentication::v1::{SelfSubjectReview, UserInfo};
use kube::Client;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use tenure_cluster::Cluster;

async fn whoami(client: Client) -> UserInfo {
    let reviews: Api<SelfSubjectReview> = Api::all(client);
    let review = SelfSubjectReview::default();
    let answer = reviews.create(&PostParams::default(), &review).await.unwrap();
    answer.status.unwrap().user_info.unwrap()
}

async fn read(text: &str) -> Client {
    let file = Kubeconfig::from_yaml(text).unwrap();
    let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    Client::try_from(config.unwrap()).unwrap()
}

#[tokio::test]
async fn a_client_is_who_it_says() {
    let cluster = Cluster::start().await.unwrap();
    let admin = whoami(cluster.client()).await;
    assert_eq!(admin.username.as_deref(), Some("kubernetes-admin"));
    let alice = whoami(cluster.client_as("alice", &["dev", "ops", "staff"])).await;
    assert_eq!(alice.username.as_deref(), Some("alice"));
    assert_eq!(alice.groups.unwrap(), ["dev", "ops", "staff", "system:authenticated"]);
    let bob = whoami(cluster.client_as("bob", &[])).await;
    assert_eq!(bob.groups.unwrap(), ["system:authenticated"]);
}

#[tokio::test]
async fn a_service_account_has_its_token() {
    let cluster = Cluster::start().await.unwrap();
    let client = cluster.service_account_client("default", "default").await.unwrap();
    let account = whoami(client).await;
    assert_eq!(account.username.as_deref(), Some("system:serviceaccount:default:default"));
    let absent = cluster.service_account_client("default", "nobody").await.err().unwrap();
    let kube::Error::Api(status) = absent else { panic!("{absent:?}") };
    assert_eq!(status.code, 404);
}

#[tokio::test]
async fn kubeconfigs_lead_to_the_same_users() {
    let cluster = Cluster::start().await.unwrap();
    let admin = whoami(read(&cluster.kubeconfig()).await).await;
    assert_eq!(admin.username.as_deref(), Some("kubernetes-admin"));
    let file = std::fs::read_to_string(cluster.kubeconfig_file()).unwrap();
    let admin = whoami(read(&file).await).await;
    assert_eq!(admin.username.as_deref(), Some("kubernetes-admin"));
    let alice = whoami(read(&cluster.kubeconfig_as("alice", &["dev"])).await).await;
    assert_eq!(alice.username.as_deref(), Some("alice"));
    assert_eq!(alice.groups.unwrap(), ["dev", "system:authenticated"]);
}
