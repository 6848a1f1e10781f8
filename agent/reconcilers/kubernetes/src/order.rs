//! The order in which objects are applied, and removed the other way round.
//!
//! What comes in: keys. What goes out: a rank for each: what others need comes first, what could refuse the
//! others (webhooks, admission policies) last. It is pure.

use crate::manifest::Key;

/// Objects of this rank and below are there, and ready, before others are applied.
pub const FOUNDATION: u8 = 1;

/// The rank of an object; the lowest is applied first and removed last.
pub fn rank(key: &Key) -> u8 {
    let core = key.group.is_empty();
    match (key.group.as_str(), key.kind.as_str()) {
        ("", "Namespace") => 0,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => 1,
        ("scheduling.k8s.io" | "storage.k8s.io" | "node.k8s.io", _) => 2,
        ("", "ResourceQuota" | "LimitRange") | ("networking.k8s.io", "NetworkPolicy") => 3,
        ("", "ServiceAccount") => 4,
        ("rbac.authorization.k8s.io", "ClusterRole" | "Role") => 5,
        ("rbac.authorization.k8s.io", _) => 6,
        ("", "Secret" | "ConfigMap") => 7,
        ("", "PersistentVolume") => 8,
        ("", "PersistentVolumeClaim") => 9,
        ("", "Service") => 10,
        ("apps" | "batch", _) => 20,
        ("apiregistration.k8s.io", _) => 40,
        ("admissionregistration.k8s.io", kind) if kind.ends_with("Binding") => 42,
        ("admissionregistration.k8s.io", kind) if kind.ends_with("Policy") => 41,
        ("admissionregistration.k8s.io", _) => 43,
        _ if core => 20,
        // What Flux fetches from, and what Argo CD's applications are allowed, before what is made of them.
        ("source.toolkit.fluxcd.io", _) | ("argoproj.io", "AppProject") => 25,
        // Ingresses, budgets, and objects of custom kinds.
        _ => 30,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_need_comes_first_and_what_may_refuse_them_last() {
        let order = [
            "Namespace a",
            "CustomResourceDefinition.apiextensions.k8s.io presses.example.org",
            "StorageClass.storage.k8s.io fast",
            "ResourceQuota a/q",
            "ServiceAccount a/s",
            "Role.rbac.authorization.k8s.io a/r",
            "RoleBinding.rbac.authorization.k8s.io a/r",
            "ConfigMap a/c",
            "PersistentVolumeClaim a/p",
            "Service a/s",
            "Deployment.apps a/d",
            "GitRepository.source.toolkit.fluxcd.io a/g",
            "Ingress.networking.k8s.io a/i",
            "APIService.apiregistration.k8s.io v1.example.org",
            "ValidatingAdmissionPolicy.admissionregistration.k8s.io p",
            "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io b",
            "ValidatingWebhookConfiguration.admissionregistration.k8s.io w",
        ];
        let ranks: Vec<_> = order
            .iter()
            .map(|text| rank(&Key::parse(text).unwrap()))
            .collect();
        assert!(ranks.is_sorted_by(|a, b| a < b), "{ranks:?}");
        assert!(ranks[1] <= FOUNDATION && ranks[2] > FOUNDATION);
    }
}
