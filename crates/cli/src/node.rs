//! `tenure node`: a node joins a running server, or tells what it could isolate. What a node does is
//! decided elsewhere.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tenure_host::NodeOptions;
use tenure_host::folder::TemporaryFolder;
use tenure_lifecycle::{NodeCapacity, RestartBackoff};
use tenure_machinery::quantity::Quantity;
use tenure_machinery::{Object, ObjectExt as _};
use tenure_node::{Node, NodeSettings, RuntimeChoice, Server};

use crate::flags::{
    EgressFlag, Isolation, NodeCommand, NodeFlags, NodeInfo, NodeSubcommand, PodNetworkFlag,
    RuntimeFlag,
};
use crate::report::CommandError;
use crate::up::{Signals, data_dir, run_to_end, workers};
use crate::{logging, say};

/// How long `tenure node info` waits for a runtime.
const INFO_LIMIT: Duration = Duration::from_secs(10);

pub(crate) fn run(flags: NodeCommand, verbose: u8) -> Result<(), CommandError> {
    if let Some(NodeSubcommand::Info(flags)) = &flags.command {
        return info(flags);
    }
    logging::start(flags.log_format, verbose)?;
    run_to_end(Box::pin(join(flags)))?
}

async fn join(flags: NodeCommand) -> Result<(), CommandError> {
    let mut signals = Signals::new()?;
    let Some(path) = flags.kubeconfig.clone() else {
        return Err(CommandError::new("a node needs a server to join")
            .usage()
            .hint("name its kubeconfig with `--kubeconfig FILE`"));
    };
    let name = match flags.node_name.clone() {
        Some(name) => name,
        None => machine_name("name the node with `--node-name NAME`")?,
    };
    let server = tokio::select! {
        found = server(&path, flags.context.as_deref(), &name) => found?,
        () = signals.next() => return Ok(()),
    };
    let folder = match flags.data_dir.clone() {
        Some(folder) => folder,
        None => data_dir(None)?.join("node").join(&name),
    };
    let Some(runtime) = choice(&flags.runtime, &flags.node) else {
        return Err(CommandError::new("a node that joins a server runs pods for real")
            .usage()
            .hint("leave out `--runtime none`"));
    };
    let options = options(&flags.node)?;
    // On a machine that runs others' containers too, its files are for its administrator to give.
    let private = match flags.runtime {
        RuntimeFlag::Process => vec![path.clone()],
        RuntimeFlag::Cri(_) | RuntimeFlag::None => Vec::new(),
    };
    let address = address(flags.node_ip, flags.listen);
    if let Some(why) = unreachable(address, flags.listen, &server.url) {
        let words = format!("{why}; logs and commands of its pods cannot be asked for\n");
        let _ = std::io::stderr().lock().write_all(words.as_bytes());
    }
    let settings = NodeSettings {
        private,
        address,
        listen: flags.listen,
        room: options.room,
        backoff: options.backoff,
        egress: options.egress,
        eviction: options.eviction,
        ..NodeSettings::new(&name, server.clone(), runtime, folder)
    };
    let node = tokio::select! {
        started = Box::pin(Node::start(settings)) => started.map_err(|error| problem(&error))?,
        () = signals.next() => return Ok(()),
    };
    tokio::select! {
        () = node.registered() => {}
        () = signals.next() => return Ok(()),
    }
    tracing::info!(name, server = server.url, "the node has joined");
    say(format!("ready {name} at {}\n", server.url).as_bytes());
    let words = "\ncontainers run on when this ends; stop with ctrl-c\n";
    let _ = std::io::stderr().lock().write_all(words.as_bytes());
    signals.next().await;
    tracing::info!(name, "the node leaves; its containers run on");
    Ok(())
}

/// The address that the node tells the server: the one it listens on, if that is one only. None: what this
/// machine uses to reach others.
fn address(asked: Option<IpAddr>, listen: SocketAddr) -> Option<IpAddr> {
    let only = Some(listen.ip()).filter(|address| !address.is_unspecified());
    asked.or(only)
}

/// Why the server cannot reach the node, as far as that can be told from here.
fn unreachable(told: Option<IpAddr>, listen: SocketAddr, server: &str) -> Option<String> {
    if !listen.ip().is_loopback() {
        return None;
    }
    let told = told?;
    if !told.is_loopback() {
        return Some(format!(
            "nobody reaches the node at {told}: it listens on {} only",
            listen.ip()
        ));
    }
    let host = server.split("://").nth(1).unwrap_or(server);
    let host = host.split('/').next().unwrap_or_default();
    let host = host.rsplit_once(':').map_or(host, |(host, _)| host).trim_matches(['[', ']']);
    let here = host == "localhost" || host.parse().is_ok_and(|host: IpAddr| host.is_loopback());
    let words = || format!("the node is at {told}, where the server at {host} does not reach it");
    (!here).then(words)
}

fn problem(error: &dyn std::error::Error) -> CommandError {
    let mut problem = CommandError::new(error.to_string());
    let mut next = error.source();
    while let Some(cause) = next {
        problem = problem.cause(&cause.to_string());
        next = cause.source();
    }
    problem
}

/// The name of this machine as nodes are named.
pub(crate) fn machine_name(hint: &str) -> Result<String, CommandError> {
    let name = tenure_host::pki::hostname().unwrap_or_default().to_lowercase();
    if name.is_empty() {
        let problem = CommandError::new("this machine has no name");
        return Err(problem.hint(hint));
    }
    Ok(name)
}

/// Where the server of a kubeconfig is and how it is spoken to.
async fn server(path: &Path, context: Option<&str>, node: &str) -> Result<Server, CommandError> {
    let mut server = kubeconfig(path, context)?;
    let client =
        tenure_node::client::Client::new(&server).map_err(|error| unusable(path, &error))?;
    let user = client.who().await.map_err(|error| {
        unusable(path, &error).hint("see whether the server runs with `kubectl version`")
    })?;
    if user != format!("system:node:{node}") {
        server.act_as = Some(node.to_owned());
    }
    Ok(server)
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> CommandError {
    CommandError::new(format!("`{}` cannot be used to join a server", path.display()))
        .usage()
        .cause(error)
}

/// The server and user of a context, or of the current one. Certificates, keys and tokens are read; commands and
/// other ways to show who one is are not.
fn kubeconfig(path: &Path, context: Option<&str>) -> Result<Server, CommandError> {
    let text = std::fs::read(path).map_err(|error| unusable(path, &error))?;
    let config = tenure_yaml::to_json(&text, tenure_yaml::YamlLimits::default())
        .map_err(|error| unusable(path, &error))?;
    let config = config.as_object().cloned().unwrap_or_default();
    let named = |list: &str, name: &str, member: &str| -> Object {
        let items = config.list_at(&[list]).iter().filter_map(Value::as_object);
        let mut found = items.filter(|item| item.str_at(&["name"]) == Some(name));
        found.next().and_then(|item| item.map_at(&[member])).cloned().unwrap_or_default()
    };
    let current = config.str_at(&["current-context"]).unwrap_or_default();
    let context = named("contexts", context.unwrap_or(current), "context");
    let of = |member| context.str_at(&[member]).unwrap_or_default();
    let cluster = named("clusters", of("cluster"), "cluster");
    let user = named("users", of("user"), "user");
    let Some(url) = cluster.str_at(&["server"]) else {
        return Err(unusable(path, &"its context names no server"));
    };
    let pem = |within: &Object, member: &str| -> Result<String, CommandError> {
        if let Some(data) = within.str_at(&[&format!("{member}-data")]) {
            let bytes = STANDARD.decode(data).map_err(|error| unusable(path, &error))?;
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
        let Some(file) = within.str_at(&[member]) else { return Ok(String::new()) };
        // A name without a folder means a file beside the kubeconfig.
        let file = path.parent().unwrap_or(Path::new("")).join(file);
        std::fs::read_to_string(file).map_err(|error| unusable(path, &error))
    };
    Ok(Server {
        url: url.trim_end_matches('/').to_owned(),
        authority_pem: pem(&cluster, "certificate-authority")?,
        certificate_pem: pem(&user, "client-certificate")?,
        key_pem: pem(&user, "client-key")?,
        token: user.str_at(&["token"]).map(str::to_owned),
        act_as: None,
        services: None,
    })
}

/// What runs pods for real; nothing for `none`.
pub(crate) fn choice(flag: &RuntimeFlag, flags: &NodeFlags) -> Option<RuntimeChoice> {
    match flag {
        RuntimeFlag::None => None,
        RuntimeFlag::Cri(socket) => Some(RuntimeChoice::Cri {
            socket: socket.clone(),
            node_network: flags.cri_host_network,
        }),
        #[cfg(target_os = "linux")]
        RuntimeFlag::Process => {
            use tenure_node::runtime::process::{Images, PodNetworkChoice};
            let images = Images {
                map: flags.image_map.iter().map(|text| Images::parse_map(text)).collect(),
                folders: flags.image_dir.clone(),
                ..Images::default()
            };
            let allow_privileged = flags.allow_privileged_process;
            let plain = flags.isolation == Isolation::None;
            let pod_network = match flags.pod_network {
                PodNetworkFlag::Own => PodNetworkChoice::Own,
                PodNetworkFlag::Host => PodNetworkChoice::Machine,
            };
            Some(RuntimeChoice::Process { images, allow_privileged, plain, pod_network })
        }
        #[cfg(not(target_os = "linux"))]
        RuntimeFlag::Process => None,
    }
}

/// What nodes are told.
pub(crate) fn options(flags: &NodeFlags) -> Result<NodeOptions, CommandError> {
    let mut room = NodeOptions::default().room;
    for (name, text) in &flags.node_capacity {
        let quantity = Quantity::parse(text).filter(|quantity| !quantity.is_negative());
        let Some(quantity) = quantity else {
            return Err(CommandError::new(format!("`{text}` is no quantity"))
                .usage()
                .hint("use a number such as `4`, `500m` or `8Gi`"));
        };
        let value = u64::try_from(quantity.value()).unwrap_or_default();
        match name.as_str() {
            "cpu" => room.cpu_millis = u64::try_from(quantity.milli()).unwrap_or_default(),
            "memory" => room.memory_bytes = value,
            "ephemeral-storage" => room.storage_bytes = value,
            _ => room.pods = value,
        }
    }
    let (first, max) = flags.restart_backoff;
    let backoff = RestartBackoff::curve(first, max);
    let eviction = flags.eviction;
    let egress = flags.egress == EgressFlag::Host;
    let room = NodeCapacity { ..room };
    Ok(NodeOptions { room, backoff, egress, eviction, ..NodeOptions::default() })
}

/// Prints what a runtime isolates on this machine.
fn info(flags: &NodeInfo) -> Result<(), CommandError> {
    let runtime = workers()?;
    runtime.block_on(Box::pin(async {
        let none = NodeFlags {
            node_capacity: Vec::new(),
            restart_backoff: (Duration::ZERO, Duration::ZERO),
            image_map: Vec::new(),
            image_dir: Vec::new(),
            allow_privileged_process: false,
            isolation: flags.isolation,
            pod_network: flags.pod_network,
            egress: EgressFlag::Host,
            cri_host_network: false,
            eviction: false,
        };
        let Some(choice) = choice(&flags.runtime, &none) else {
            return Err(CommandError::new("a simulated node isolates nothing: it runs nothing"));
        };
        let folder = TemporaryFolder::new().map_err(|error| {
            CommandError::new("no folder could be made for a trial").cause(&error)
        })?;
        let settings = NodeSettings {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            ends_with_agent: true,
            ..NodeSettings::new("info", Server::default(), choice, folder.path().to_owned())
        };
        let asked = async {
            let address = Ipv4Addr::LOCALHOST.into();
            let runtime = tenure_node::node::runtime(&settings, address).await?;
            runtime.about().await
        };
        let asked = tokio::time::timeout(INFO_LIMIT, Box::pin(asked)).await;
        let about = match asked {
            Ok(Ok(about)) => about,
            Ok(Err(error)) => return Err(problem(&error)),
            Err(_) => return Err(CommandError::new("the runtime does not answer")),
        };
        let mut text = format!("runtime  {} {}\n", about.name, about.version);
        let width =
            about.isolation.iter().map(|(aspect, _)| aspect.len()).max().unwrap_or_default();
        for (aspect, held) in &about.isolation {
            let held = match held {
                Ok(()) => "yes".to_owned(),
                Err(why) => format!("no: {why}"),
            };
            text.push_str(&format!("{aspect:width$}  {held}\n"));
        }
        if let Some(why) = about.unable {
            text.push_str(&format!("\nno pod is run here: {why}\n"));
        }
        if let Some(danger) = about.danger {
            text.push_str(&format!("\n{danger}\n"));
        }
        say(text.as_bytes());
        Ok(())
    }))
}

#[cfg(test)]
mod tests {
    //! Rules of spec/downward-api.md.
    use super::*;

    #[test]
    fn r134_a_node_tells_an_address_that_it_listens_on() {
        let listen = |text: &str| text.parse::<SocketAddr>().unwrap();
        let ip = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        let here = "https://127.0.0.1:6443";
        let loopback = listen("127.0.0.1:0");
        assert_eq!(address(None, loopback), ip("127.0.0.1"));
        assert_eq!(address(None, listen("0.0.0.0:10250")), None, "what the machine uses");
        assert_eq!(address(None, listen("192.0.2.7:1")), ip("192.0.2.7"));
        assert_eq!(address(ip("192.0.2.9"), loopback), ip("192.0.2.9"));
        for (told, listens, server, reached) in [
            ("127.0.0.1", "127.0.0.1:0", here, true),
            ("127.0.0.1", "127.0.0.1:0", "https://localhost", true),
            ("::1", "[::1]:0", "https://[::1]:6443/", true),
            ("127.0.0.1", "127.0.0.1:0", "https://192.0.2.1:6443", false),
            ("192.0.2.9", "127.0.0.1:0", here, false),
            ("192.0.2.9", "0.0.0.0:10250", "https://192.0.2.1:6443", true),
        ] {
            let why = unreachable(ip(told), listen(listens), server);
            assert_eq!(why.is_none(), reached, "{told} {listens} {server}: {why:?}");
        }
    }
}
