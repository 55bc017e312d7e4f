#if Etcd
import ForgeFileSystem
public import ForgeKVStore
import Foundation
public import Logging

/// A key-value store in etcd, for servers that share their values.
///
/// It uses the servers' JSON gateway, which every etcd since 3.4 has enabled. Values are stored as `ForgeCoding`
/// encodes them, under their names with a prefix. Other keys of the cluster are never read or changed; a key with the
/// prefix that is not UTF-8 is not listed. Batches are single transactions.
///
/// A read, a log-in and the opening of a watch are repeated, with full jitter, until the deadline. A write that was
/// sent is never repeated: if the answer is lost, its outcome is `.unknownOutcome`, and it may still take effect. The
/// only outcome that reading can prove is that of a write that requires a revision: if exactly one write has replaced
/// that revision since, and it stored another value, the error is `.conflict`.
///
/// Before 3.4.36 and 3.5.18 servers lose events around a compaction. With an older server, ``changes(prefix:from:)``
/// begins again with `.resync` after every interruption, and ``capabilities()`` declares `.lossy`. The versions are
/// asked until every endpoint has answered once.
///
/// All calls are thread-safe. A store that is released closes its connections; ``close()`` waits for that.
public final class EtcdKVStore: AsyncKVStoring {
    let transport: EtcdTransport
    let leases: EtcdLeases
    let names: EtcdNames
    private var configuration: Configuration { transport.configuration }

    /// Creates a store; connects with the first call.
    ///
    /// - Throws: `KVStoreError`: `.refused` if there is no endpoint or a certificate cannot be loaded.
    public init(_ configuration: Configuration) throws(KVStoreError) {
        guard !configuration.endpoints.isEmpty else {
            throw KVStoreError(.refused, .capabilities, detail: "there is no endpoint")
        }
        do {
            transport = try EtcdTransport(configuration)
        } catch {
            throw KVStoreError(.refused, .capabilities, detail: "\(error)")
        }
        leases = EtcdLeases(transport)
        names = EtcdNames(prefix: configuration.prefix)
    }

    /// Ends all calls and watches and closes the connections. Later calls throw.
    public func close() async { await transport.close() }

    public func capabilities() async throws(KVStoreError) -> AsyncKVCapabilities {
        AsyncKVCapabilities(
            maximumBatchSize: configuration.maximumBatchSize,
            expiry: EtcdLeases.granularity,
            changes: try await transport.replaysChanges() ? .replayable : .lossy,
            readConsistency: configuration.reads == .linearizable ? .linearizable : .stale, durability: .powerCut)
    }

    public func entry(named name: String) async throws(KVStoreError) -> KVEntry? {
        try await keyValue(named: name, as: EtcdKeyValue.self)?.entry
    }

    /// The value of a name, and whether it ends with a lease.
    package func leasedEntry(named name: String) async throws(KVStoreError) -> (entry: KVEntry, isLeased: Bool)? {
        guard let found = try await keyValue(named: name, as: EtcdLeasedKeyValue.self) else { return nil }
        let entry = KVEntry(
            bytes: [UInt8](found.value ?? Data()), revision: UInt64(clamping: found.mod_revision?.value ?? 0))
        return (entry, found.lease.map { $0.value != 0 } ?? false)
    }

    /// A key, now or at a revision.
    private func keyValue<KeyValue: Decodable & Sendable>(
        named name: String, at revision: UInt64? = nil, as type: KeyValue.Type
    ) async throws(KVStoreError) -> KeyValue? {
        let request = EtcdRangeRequest(
            key: try names.key(of: name, .read), revision: revision.map { EtcdInteger(Int64(clamping: $0)) },
            serializable: configuration.reads == .serializable && revision == nil ? true : nil)
        let response: EtcdRangeResponse<KeyValue> = try await transport.call(
            EtcdCall(path: "/v3/kv/range", operation: .read, key: name), request)
        return response.kvs?.first
    }

    public func keys(prefix: String, after: String?, limit: Int) async throws(KVStoreError) -> AsyncKVPage {
        // The key after a key is the key with a zero byte.
        var start =
            try after.map { name throws(KVStoreError) in try names.key(of: name, .keys) + [0] }
            ?? names.start(of: prefix)
        var page = AsyncKVPage(names: [], hasMore: true)
        // More than one request only if no key of a page is UTF-8.
        while page.hasMore, page.names.isEmpty {
            let request = EtcdRangeRequest(
                key: start, range_end: names.end(of: prefix), limit: EtcdInteger(Int64(max(limit, 1))),
                serializable: configuration.reads == .serializable ? true : nil, keys_only: true)
            let response: EtcdRangeResponse<EtcdKeyValue> = try await transport.call(
                EtcdCall(path: "/v3/kv/range", operation: .keys), request)
            let found = response.kvs ?? []
            page.names = found.compactMap { names.name(of: $0.key) }
            page.hasMore = response.more ?? false
            page.revision = response.header.revision.map { UInt64(clamping: $0.value) }
            guard let last = found.last else { break }
            start = last.key + [0]
        }
        return page
    }

    /// Some of the values with a prefix; linearizable, whatever ``Configuration/reads-swift.property`` is, with the
    /// cluster's identifier.
    public func entries(
        prefix: String, after: String?, limit: Int, at revision: UInt64?
    ) async throws(KVStoreError) -> AsyncKVEntryPage {
        var start =
            try after.map { name throws(KVStoreError) in try names.key(of: name, .keys) + [0] }
            ?? names.start(of: prefix)
        var page = AsyncKVEntryPage(entries: [], hasMore: true, revision: revision)
        // More than one request only if no key of a page is UTF-8.
        while page.hasMore, page.entries.isEmpty {
            let request = EtcdRangeRequest(
                key: start, range_end: names.end(of: prefix), limit: EtcdInteger(Int64(max(limit, 1))),
                revision: page.revision.map { EtcdInteger(Int64(clamping: $0)) })
            let response: EtcdRangeResponse<EtcdKeyValue> = try await transport.call(
                EtcdCall(path: "/v3/kv/range", operation: .keys), request)
            let found = response.kvs ?? []
            for value in found {
                if let name = names.name(of: value.key) {
                    page.entries.append((name, value.entry))
                } else {
                    page.foreignKeys.append(Array(value.key))
                }
            }
            page.hasMore = response.more ?? false
            page.revision = page.revision ?? response.header.revision.map { UInt64(clamping: $0.value) }
            page.storeID = names.storeID(in: response.header.cluster_id)
            guard let last = found.last else { break }
            start = last.key + [0]
        }
        return page
    }

    @discardableResult
    public func commit(_ batch: KVBatch, timeToLive: Duration?) async throws(KVStoreError) -> UInt64? {
        guard let timeToLive else { return try await commit(batch, lease: nil) }
        // A lease that was shared and is lost has made the server refuse the write.
        for isLast in [false, true] {
            let lease = try await leases.lease(for: timeToLive)
            do throws(KVStoreError) {
                return try await commit(batch, lease: lease)
            } catch {
                guard error.code == .leaseLost, !isLast else { throw error }
                leases.forget(lease)
            }
        }
        return nil
    }

    /// Commits a batch whose values exist as long as a lease is kept alive.
    ///
    /// - Returns: The revision of the values.
    /// - Throws: `KVStoreError`, as by ``commit(_:timeToLive:)``; `.leaseLost` if the lease has ended: then
    ///   nothing was changed.
    @discardableResult
    public func commit(_ batch: KVBatch, lease: EtcdLease) async throws(KVStoreError) -> UInt64? {
        guard !lease.isLost else { throw KVStoreError(.leaseLost, .batch) }
        do throws(KVStoreError) {
            return try await commit(batch, lease: lease.id)
        } catch {
            if error.code == .leaseLost { lease.lose() }
            throw error
        }
    }

    private func commit(_ batch: KVBatch, lease: Int64?) async throws(KVStoreError) -> UInt64? {
        let transaction = try names.transaction(of: batch, lease: lease)
        guard !transaction.success.isEmpty || !transaction.compare.isEmpty else {
            // Nothing is sent that the closed connections would refuse.
            guard !transport.isClosed else { throw KVStoreError(.unavailable(.closed), .batch) }
            return nil
        }
        let key = batch.changes.count == 1 ? batch.changes[0].name : nil
        guard max(transaction.success.count, transaction.compare.count) <= configuration.maximumBatchSize else {
            throw KVStoreError(.tooLarge, .batch, key: key, detail: "too many operations")
        }
        // Base64 takes 4 bytes for 3; the server counts the bytes themselves.
        let size = transaction.success.reduce(0) {
            $0 + ($1.request_put.map { $0.key.count + $0.value.count + 32 } ?? 64)
        }
        guard size <= configuration.maximumRequestSizeInBytes else {
            throw KVStoreError(.tooLarge, .batch, key: key, detail: "\(size) bytes")
        }
        let response: EtcdTransactionResponse
        do throws(KVStoreError) {
            var call = EtcdCall(path: "/v3/kv/txn", operation: .batch, key: key, isWrite: true)
            if let put = transaction.onlyPut {
                // A fifth faster than a transaction with one operation.
                call.path = "/v3/kv/put"
                let answer: EtcdPutResponse = try await transport.call(call, put)
                guard let revision = answer.header?.revision else {
                    throw KVStoreError(.unknownOutcome, .batch, key: key, detail: "the answer has no revision")
                }
                return UInt64(clamping: revision.value)
            }
            response = try await transport.call(call, transaction)
        } catch {
            if error.code == .unknownOutcome, await isProvenLost(batch) {
                var error = error
                error.code = .conflict
                throw error
            }
            throw error
        }
        guard response.succeeded == true else {
            throw KVStoreError(.conflict, .batch, key: batch.requirements.first?.name)
        }
        return response.header?.revision.map { UInt64(clamping: $0.value) }
    }

    /// Whether reading proves that a batch was not and never will be applied: it requires a revision of a name, which
    /// exactly one write has replaced since, with a value that the batch does not store.
    ///
    /// An equal value proves nothing: another client may have stored it.
    private func isProvenLost(_ batch: KVBatch) async -> Bool {
        for requirement in batch.requirements {
            guard let revision = requirement.revision,
                case .set(_, let bytes)? = batch.changes.last(where: { names.areEqual($0.name, requirement.name) })
            else { continue }
            do throws(KVStoreError) {
                let type = EtcdVersionedKeyValue.self
                guard let old = try await keyValue(named: requirement.name, at: revision, as: type),
                    let new = try await keyValue(named: requirement.name, as: type),
                    let oldVersion = old.version?.value, let newVersion = new.version?.value
                else { continue }
                let isNext = newVersion > oldVersion && newVersion &- oldVersion == 1
                if isNext, new.create_revision == old.create_revision, [UInt8](new.value ?? Data()) != bytes {
                    return true
                }
            } catch {
                return false
            }
        }
        return false
    }

    public func changes(prefix: String, from revision: UInt64?) -> KVChanges {
        let source = EtcdChangeSource(transport, names, prefix: prefix, from: revision)
        return KVChanges { () async throws(KVStoreError) -> KVChangeSet? in try await source.next() }
    }

    /// A lease that this process keeps alive; calls with equal times share one.
    ///
    /// Values that are stored under it (``commit(_:lease:)``) disappear when the process ends, or cannot reach the
    /// cluster for `timeToLive`.
    ///
    /// - Parameter timeToLive: How long the values outlive the process; whole seconds, rounded up, at least 2.
    /// - Returns: The lease, which is kept alive while it is referred to.
    /// - Throws: `KVStoreError`.
    public func keptLease(timeToLive: Duration) async throws(KVStoreError) -> EtcdLease {
        try await leases.keptLease(timeToLive: timeToLive)
    }
}

extension EtcdKVStore {
    /// The servers and limits of a store.
    public struct Configuration: Sendable {
        /// Which writes a read sees.
        public enum Reads: Hashable, Sendable {
            /// All that were acknowledged, by any client: a majority of the cluster confirms the read.
            case linearizable

            /// Those that the asked server knows; faster, and available without a majority.
            case serializable
        }

        /// Certificates in PEM files. A client certificate secures the connection; it does not log in.
        public struct TLS: Hashable, Sendable {
            /// The path of the trusted certificates, which are read when the store is created; nil for those of the system.
            public var trustRootsPath: String?

            /// The path of the client's certificate chain; nil for none.
            public var certificatePath: String?

            /// The path of the client's private key; nil for none.
            public var privateKeyPath: String?

            /// Creates settings for `https` endpoints.
            public init(
                trustRootsPath: String? = nil, certificatePath: String? = nil, privateKeyPath: String? = nil
            ) {
                self.trustRootsPath = trustRootsPath
                self.certificatePath = certificatePath
                self.privateKeyPath = privateKeyPath
            }
        }

        /// A user with a password, who logs in through the JSON gateway.
        public struct Credentials: Sendable {
            let user: String
            let password: String

            /// Creates credentials.
            public init(user: String, password: String) {
                self.user = user
                self.password = password
            }
        }

        /// The servers of one cluster, as `http://host:port` or `https://host:port`. A call that may be repeated goes
        /// on to the next one after a failure.
        public var endpoints: [String]

        /// The prefix of every name in etcd. If it is empty, the empty name is `.invalidKey`.
        public var prefix = "forge/"

        /// The certificates for `https` endpoints.
        public var tls = TLS()

        /// The user; nil to use the cluster without logging in.
        public var credentials: Credentials?

        /// The time for one call with all its attempts. After a lost answer, a write that requires revisions takes up
        /// to twice as long again for each of them, to read what came of it.
        public var deadline = Duration.seconds(5)

        /// Which writes a read sees.
        public var reads = Reads.linearizable

        /// The maximum number of operations in a transaction, as the servers' `--max-txn-ops`.
        public var maximumBatchSize = 128

        /// The maximum size of a request, as the servers' `--max-request-bytes`.
        public var maximumRequestSizeInBytes = 1_500_000

        /// The logger: attempts that are repeated at `debug`, lost leases and interrupted watches at `notice`.
        public var logger = Logger(label: "ForgeStorage.Etcd")

        /// Creates a configuration.
        public init(endpoints: [String]) {
            self.endpoints = endpoints
        }
    }
}

extension EtcdKVStore.Configuration.Credentials: CustomStringConvertible, CustomReflectable {
    /// The user, without the password.
    public var description: String { "user \(user)" }

    public var customMirror: Mirror { Mirror(self, children: ["user": user]) }
}
#else
/// A key-value store in etcd, which needs the trait `Etcd`.
@available(*, unavailable, message: "name the trait Etcd for ForgeStorage in the root package's manifest")
public final class EtcdKVStore: Sendable {}

/// A lease of a store in etcd, which needs the trait `Etcd`.
@available(*, unavailable, message: "name the trait Etcd for ForgeStorage in the root package's manifest")
public final class EtcdLease: Sendable {}
#endif
