//! Objects, refusals and changes as a control plane was seen to answer them (section 7.1).

/// Kind, what was sent, and what labels, annotations, spec and status became.
pub(super) const CREATED: &[(&str, &str, &str)] = &[
    (
        "Deployment",
        r##"{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}]}}}}"##,
        r##"{"spec":{"progressDeadlineSeconds":600,"replicas":1,"revisionHistoryLimit":10,"selector":{"matchLabels":{"app":"a"}},"strategy":{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"},"type":"RollingUpdate"},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}},"status":{}}"##,
    ),
    (
        "ReplicaSet",
        r##"{"metadata":{"name":"r"},"spec":{"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}]}}}}"##,
        r##"{"spec":{"replicas":1,"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}},"status":{"replicas":0}}"##,
    ),
    (
        "StatefulSet",
        r##"{"metadata":{"name":"s"},"spec":{"selector":{"matchLabels":{"app":"a"}},"serviceName":"svc","template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}]}},"volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}]}}"##,
        r##"{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain","whenScaled":"Retain"},"podManagementPolicy":"OrderedReady","replicas":1,"revisionHistoryLimit":10,"selector":{"matchLabels":{"app":"a"}},"serviceName":"svc","template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}},"updateStrategy":{"rollingUpdate":{"maxUnavailable":1,"partition":0},"type":"RollingUpdate"},"volumeClaimTemplates":[{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"volumeMode":"Filesystem"},"status":{"phase":"Pending"}}]},"status":{"availableReplicas":0,"replicas":0}}"##,
    ),
    (
        "DaemonSet",
        r##"{"metadata":{"name":"s"},"spec":{"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}]}}}}"##,
        r##"{"annotations":{"deprecated.daemonset.template.generation":"1"},"spec":{"revisionHistoryLimit":10,"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}},"updateStrategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1},"type":"RollingUpdate"}},"status":{"currentNumberScheduled":0,"desiredNumberScheduled":0,"numberMisscheduled":0,"numberReady":0}}"##,
    ),
    (
        "Job",
        r##"{"metadata":{"name":"j"},"spec":{"template":{"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}],"restartPolicy":"Never"}}}}"##,
        r##"{"labels":{"batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"j","controller-uid":"u","job-name":"j"},"spec":{"backoffLimit":6,"completionMode":"NonIndexed","completions":1,"manualSelector":false,"parallelism":1,"podReplacementPolicy":"TerminatingOrFailed","selector":{"matchLabels":{"batch.kubernetes.io/controller-uid":"u"}},"suspend":false,"template":{"metadata":{"labels":{"batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"j","controller-uid":"u","job-name":"j"}},"spec":{"containers":[{"image":"example.com/app:v1","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Never","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}},"status":{}}"##,
    ),
    (
        "CronJob",
        r##"{"metadata":{"name":"c"},"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}],"restartPolicy":"OnFailure"}}}},"schedule":"*/5 * * * *","suspend":true}}"##,
        r##"{"spec":{"concurrencyPolicy":"Allow","failedJobsHistoryLimit":1,"jobTemplate":{"metadata":{},"spec":{"template":{"metadata":{},"spec":{"containers":[{"image":"example.com/app:v1","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"OnFailure","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}}},"schedule":"*/5 * * * *","successfulJobsHistoryLimit":3,"suspend":true},"status":{}}"##,
    ),
    (
        "ReplicationController",
        r##"{"metadata":{"name":"r"},"spec":{"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}]}}}}"##,
        r##"{"labels":{"app":"a"},"spec":{"replicas":1,"selector":{"app":"a"},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}},"status":{"replicas":0}}"##,
    ),
    (
        "ReplicaSet",
        r##"{"metadata":{"name":"web"},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web","v":"1"}},"spec":{"containers":[{"image":"example.test/img:1","name":"c"}]}}}}"##,
        r##"{"spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web","v":"1"}},"spec":{"containers":[{"image":"example.test/img:1","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}},"status":{"replicas":0}}"##,
    ),
    (
        "ReplicationController",
        r##"{"metadata":{"name":"web"},"spec":{"template":{"metadata":{"labels":{"app":"web","v":"1"}},"spec":{"containers":[{"image":"example.test/img:1","name":"c"}]}}}}"##,
        r##"{"labels":{"app":"web","v":"1"},"spec":{"replicas":1,"selector":{"app":"web","v":"1"},"template":{"metadata":{"labels":{"app":"web","v":"1"}},"spec":{"containers":[{"image":"example.test/img:1","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}},"status":{"replicas":0}}"##,
    ),
    (
        "Deployment",
        r##"{"metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web","v":"1"}},"spec":{"containers":[{"image":"example.test/img:1","name":"c"}]}}}}"##,
        r##"{"spec":{"progressDeadlineSeconds":600,"replicas":1,"revisionHistoryLimit":10,"selector":{"matchLabels":{"app":"web"}},"strategy":{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"},"type":"RollingUpdate"},"template":{"metadata":{"labels":{"app":"web","v":"1"}},"spec":{"containers":[{"image":"example.test/img:1","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}},"status":{}}"##,
    ),
    (
        "StatefulSet",
        r##"{"metadata":{"name":"web"},"spec":{"replicas":2,"selector":{"matchLabels":{"app":"web"}},"serviceName":"svc","template":{"metadata":{"labels":{"app":"web","v":"1"}},"spec":{"containers":[{"image":"example.test/img:1","name":"c"}]}},"volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}]}}"##,
        r##"{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain","whenScaled":"Retain"},"podManagementPolicy":"OrderedReady","replicas":2,"revisionHistoryLimit":10,"selector":{"matchLabels":{"app":"web"}},"serviceName":"svc","template":{"metadata":{"labels":{"app":"web","v":"1"}},"spec":{"containers":[{"image":"example.test/img:1","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}},"updateStrategy":{"rollingUpdate":{"maxUnavailable":1,"partition":0},"type":"RollingUpdate"},"volumeClaimTemplates":[{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"volumeMode":"Filesystem"},"status":{"phase":"Pending"}}]},"status":{"availableReplicas":0,"replicas":0}}"##,
    ),
    (
        "DaemonSet",
        r##"{"metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web","v":"1"}},"spec":{"containers":[{"image":"example.test/img:1","name":"c"}],"nodeSelector":{"t":"n"}}}}}"##,
        r##"{"annotations":{"deprecated.daemonset.template.generation":"1"},"spec":{"revisionHistoryLimit":10,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web","v":"1"}},"spec":{"containers":[{"image":"example.test/img:1","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","nodeSelector":{"t":"n"},"restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}},"updateStrategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1},"type":"RollingUpdate"}},"status":{"currentNumberScheduled":0,"desiredNumberScheduled":0,"numberMisscheduled":0,"numberReady":0}}"##,
    ),
    (
        "Job",
        r##"{"metadata":{"name":"web"},"spec":{"template":{"metadata":{"labels":{"app":"web","v":"1"}},"spec":{"containers":[{"image":"example.test/img:1","name":"c"}],"restartPolicy":"Never"}}}}"##,
        r##"{"labels":{"app":"web","batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"web","controller-uid":"u","job-name":"web","v":"1"},"spec":{"backoffLimit":6,"completionMode":"NonIndexed","completions":1,"manualSelector":false,"parallelism":1,"podReplacementPolicy":"TerminatingOrFailed","selector":{"matchLabels":{"batch.kubernetes.io/controller-uid":"u"}},"suspend":false,"template":{"metadata":{"labels":{"app":"web","batch.kubernetes.io/controller-uid":"u","batch.kubernetes.io/job-name":"web","controller-uid":"u","job-name":"web","v":"1"}},"spec":{"containers":[{"image":"example.test/img:1","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Never","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}},"status":{}}"##,
    ),
    (
        "CronJob",
        r##"{"metadata":{"name":"nightly"},"spec":{"jobTemplate":{"spec":{"template":{"metadata":{"labels":{"app":"web","v":"1"}},"spec":{"containers":[{"image":"example.test/img:1","name":"c"}],"restartPolicy":"Never"}}}},"schedule":"0 0 1 1 *","suspend":true}}"##,
        r##"{"spec":{"concurrencyPolicy":"Allow","failedJobsHistoryLimit":1,"jobTemplate":{"metadata":{},"spec":{"template":{"metadata":{"labels":{"app":"web","v":"1"}},"spec":{"containers":[{"image":"example.test/img:1","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Never","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}}},"schedule":"0 0 1 1 *","successfulJobsHistoryLimit":3,"suspend":true},"status":{}}"##,
    ),
];

/// Causes of a create or a change, in order: field and reason.
pub(super) type Causes = &'static [(&'static str, &'static str)];

/// Kind, what was sent, and the causes it gave.
pub(super) const REFUSED: &[(&str, &str, Causes)] = &[
    (
        "Deployment",
        r##"{"metadata":{"name":"d"},"spec":{"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}]}}}}"##,
        &[("spec.selector", "Required"), ("spec.template.metadata.labels", "Invalid")],
    ),
    (
        "Deployment",
        r##"{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"b"}},"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}]}}}}"##,
        &[("spec.template.metadata.labels", "Invalid")],
    ),
    (
        "Deployment",
        r##"{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"app":"a"}},"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":0},"type":"RollingUpdate"},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}]}}}}"##,
        &[("spec.strategy.rollingUpdate.maxUnavailable", "Invalid")],
    ),
    (
        "Deployment",
        r##"{"metadata":{"name":"d"},"spec":{"minReadySeconds":5,"progressDeadlineSeconds":5,"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}]}}}}"##,
        &[("spec.progressDeadlineSeconds", "Invalid")],
    ),
    (
        "Deployment",
        r##"{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}],"restartPolicy":"Never"}}}}"##,
        &[("spec.template.spec.restartPolicy", "NotSupported")],
    ),
    (
        "Deployment",
        r##"{"metadata":{"name":"d"},"spec":{"replicas":-1,"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}]}}}}"##,
        &[("spec.replicas", "Invalid")],
    ),
    (
        "Deployment",
        r##"{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"app":"a"}},"strategy":{"rollingUpdate":{"maxSurge":1},"type":"Recreate"},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}]}}}}"##,
        &[("spec.strategy.rollingUpdate", "Forbidden")],
    ),
    (
        "ReplicaSet",
        r##"{"metadata":{"name":"q"},"spec":{"selector":{},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}]}}}}"##,
        &[("spec.selector", "Invalid")],
    ),
    (
        "DaemonSet",
        r##"{"metadata":{"name":"t"},"spec":{"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}]}},"updateStrategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":0}}}}"##,
        &[("spec.updateStrategy.rollingUpdate.maxUnavailable", "Required")],
    ),
    (
        "CronJob",
        r##"{"metadata":{"name":"c"},"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}],"restartPolicy":"OnFailure"}}}},"schedule":"not a schedule"}}"##,
        &[("spec.schedule", "Invalid")],
    ),
    (
        "CronJob",
        r##"{"metadata":{"name":"c"},"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}],"restartPolicy":"OnFailure"}}}},"schedule":""}}"##,
        &[("spec.schedule", "Required")],
    ),
    (
        "CronJob",
        r##"{"metadata":{"name":"c"},"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}],"restartPolicy":"OnFailure"}}}},"schedule":"TZ=UTC * * * * *"}}"##,
        &[("spec.schedule", "Invalid")],
    ),
    (
        "CronJob",
        r##"{"metadata":{"name":"c"},"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}],"restartPolicy":"OnFailure"}}}},"schedule":"*/5 * * * *","timeZone":"Nowhere/Land"}}"##,
        &[("spec.timeZone", "Invalid")],
    ),
    (
        "CronJob",
        r##"{"metadata":{"name":"d"},"spec":{"concurrencyPolicy":"Both","jobTemplate":{"spec":{"template":{"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}],"restartPolicy":"OnFailure"}}}},"schedule":"*/5 * * * *"}}"##,
        &[("spec.concurrencyPolicy", "NotSupported")],
    ),
    (
        "ReplicationController",
        r##"{"metadata":{"name":"q"},"spec":{"selector":{"x":"y"},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}]}}}}"##,
        &[("spec.template.metadata.labels", "Invalid")],
    ),
    (
        "ReplicaSet",
        r##"{"metadata":{"name":"web"},"spec":{"replicas":0,"selector":{"matchLabels":{"app":"else"}},"template":{"metadata":{"labels":{"app":"web","v":"1"}},"spec":{"containers":[{"image":"example.test/img:1","name":"c"}]}}}}"##,
        &[("spec.template.metadata.labels", "Invalid")],
    ),
    (
        "CronJob",
        r##"{"metadata":{"name":"nightly"},"spec":{"jobTemplate":{"spec":{"template":{"metadata":{"labels":{"app":"web","v":"1"}},"spec":{"containers":[{"image":"example.test/img:1","name":"c"}],"restartPolicy":"Never"}}}},"schedule":"61 * * * *","suspend":true}}"##,
        &[("spec.schedule", "Invalid")],
    ),
    (
        "CronJob",
        r##"{"metadata":{"name":"nightly"},"spec":{"jobTemplate":{"spec":{"template":{"metadata":{"labels":{"app":"web","v":"1"}},"spec":{"containers":[{"image":"example.test/img:1","name":"c"}],"restartPolicy":"Never"}}}},"schedule":"TZ=UTC 0 0 * * *","suspend":true}}"##,
        &[("spec.schedule", "Invalid")],
    ),
    (
        "CronJob",
        r##"{"metadata":{"name":"nightly"},"spec":{"jobTemplate":{"spec":{"template":{"metadata":{"labels":{"app":"web","v":"1"}},"spec":{"containers":[{"image":"example.test/img:1","name":"c"}],"restartPolicy":"Never"}}}},"schedule":"0 0 1 1 *","suspend":true,"timeZone":"Nowhere/Land"}}"##,
        &[("spec.timeZone", "Invalid")],
    ),
];

/// Kind, what was there, the merge patch that came, and the causes it gave.
pub(super) const CHANGED: &[(&str, &str, &str, Causes)] = &[
    (
        "Deployment",
        r##"{"metadata":{"name":"d"},"spec":{"replicas":0,"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}]}}}}"##,
        r##"{"spec":{"selector":{"matchLabels":{"app":"b"}},"template":{"metadata":{"labels":{"app":"b"}}}}}"##,
        &[("spec.selector", "Invalid")],
    ),
    (
        "Deployment",
        r##"{"metadata":{"name":"d"},"spec":{"replicas":0,"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}]}}}}"##,
        r##"{"spec":{"template":{"metadata":{"labels":{"more":"x"}}}}}"##,
        &[],
    ),
    (
        "ReplicaSet",
        r##"{"metadata":{"name":"r"},"spec":{"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}]}}}}"##,
        r##"{"spec":{"selector":{"matchLabels":{"app":"b"}},"template":{"metadata":{"labels":{"app":"b"}}}}}"##,
        &[("spec.selector", "Invalid")],
    ),
    (
        "StatefulSet",
        r##"{"metadata":{"name":"s"},"spec":{"replicas":0,"selector":{"matchLabels":{"app":"a"}},"serviceName":"svc","template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}]}}}}"##,
        r##"{"spec":{"serviceName":"other"}}"##,
        &[("spec.serviceName", "Invalid")],
    ),
    (
        "StatefulSet",
        r##"{"metadata":{"name":"s"},"spec":{"replicas":0,"selector":{"matchLabels":{"app":"a"}},"serviceName":"svc","template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}]}}}}"##,
        r##"{"spec":{"podManagementPolicy":"Parallel"}}"##,
        &[("spec.podManagementPolicy", "Invalid")],
    ),
    (
        "StatefulSet",
        r##"{"metadata":{"name":"s"},"spec":{"replicas":0,"selector":{"matchLabels":{"app":"a"}},"serviceName":"svc","template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}]}}}}"##,
        r##"{"spec":{"selector":{"matchLabels":{"x":"y"}}}}"##,
        &[("spec.template.metadata.labels", "Invalid"), ("spec.selector", "Invalid")],
    ),
    (
        "StatefulSet",
        r##"{"metadata":{"name":"s"},"spec":{"replicas":0,"selector":{"matchLabels":{"app":"a"}},"serviceName":"svc","template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}]}}}}"##,
        r##"{"spec":{"minReadySeconds":3,"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Delete"},"revisionHistoryLimit":4}}"##,
        &[],
    ),
    (
        "DaemonSet",
        r##"{"metadata":{"name":"s"},"spec":{"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"example.com/app:v1","name":"c"}]}}}}"##,
        r##"{"spec":{"selector":{"matchLabels":{"app":"b"}},"template":{"metadata":{"labels":{"app":"b"}}}}}"##,
        &[("spec.selector", "Invalid")],
    ),
    (
        "ReplicaSet",
        r##"{"metadata":{"name":"web"},"spec":{"replicas":0,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web","v":"1"}},"spec":{"containers":[{"image":"example.test/img:1","name":"c"}]}}}}"##,
        r##"{"spec":{"selector":{"matchLabels":{"v":"1"}}}}"##,
        &[("spec.selector", "Invalid")],
    ),
    (
        "Deployment",
        r##"{"metadata":{"name":"web"},"spec":{"replicas":0,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web","v":"1"}},"spec":{"containers":[{"image":"example.test/img:1","name":"c"}]}}}}"##,
        r##"{"spec":{"selector":{"matchLabels":{"app":"web","v":"1"}}}}"##,
        &[("spec.selector", "Invalid")],
    ),
    (
        "StatefulSet",
        r##"{"metadata":{"name":"web"},"spec":{"replicas":0,"selector":{"matchLabels":{"app":"web"}},"serviceName":"svc","template":{"metadata":{"labels":{"app":"web","v":"1"}},"spec":{"containers":[{"image":"example.test/img:1","name":"c"}]}}}}"##,
        r##"{"spec":{"podManagementPolicy":"Parallel","serviceName":"other"}}"##,
        &[("spec.serviceName", "Invalid"), ("spec.podManagementPolicy", "Invalid")],
    ),
    (
        "Job",
        r##"{"metadata":{"name":"web"},"spec":{"template":{"metadata":{"labels":{"app":"web","v":"1"}},"spec":{"containers":[{"image":"example.test/img:1","name":"c"}],"restartPolicy":"Never"}}}}"##,
        r##"{"spec":{"template":{"metadata":{"labels":{"z":"1"}}}}}"##,
        &[("spec.template", "Invalid")],
    ),
    (
        "Deployment",
        r##"{"metadata":{"name":"d"},"spec":{"replicas":0,"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"img:1","name":"a"}]}}}}"##,
        r##"{"spec":{"selector":{"matchLabels":{"app":"a","x":"y"}},"template":{"metadata":{"labels":{"x":"y"}}}}}"##,
        &[("spec.selector", "Invalid")],
    ),
    (
        "Deployment",
        r##"{"metadata":{"name":"d"},"spec":{"replicas":0,"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},"spec":{"containers":[{"image":"img:1","name":"a"}]}}}}"##,
        r##"{"spec":{"strategy":{"type":"Recreate"}}}"##,
        &[("spec.strategy.rollingUpdate", "Forbidden")],
    ),
];
