#if !Etcd
/// A key-value store in etcd, which needs the trait `Etcd`.
@available(*, unavailable, message: "name the trait Etcd for ForgeStorage in the root package's manifest")
public final class EtcdKVStore: Sendable {}

/// A lease of a store in etcd, which needs the trait `Etcd`.
@available(*, unavailable, message: "name the trait Etcd for ForgeStorage in the root package's manifest")
public final class EtcdLease: Sendable {}
#endif
