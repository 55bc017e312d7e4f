#if Etcd
import ForgeKVStore
import Foundation

/// The keys of a store's names: a prefix and the UTF-8 of the name.
struct EtcdNames: Sendable {
    private let prefix: Data

    init(prefix: String) {
        self.prefix = Data(prefix.utf8)
    }

    /// An identifier of the cluster and the prefix together; nil if the cluster is unknown.
    func storeID(in cluster: String?) -> String? { cluster.map { "\($0) \(String(decoding: prefix, as: UTF8.self))" } }

    /// The key of a name.
    func key(of name: String, _ operation: AsyncKVStoreError.Operation) throws(AsyncKVStoreError) -> Data {
        let key = prefix + Data(name.utf8)
        guard name.utf8.count <= KVKey<Int>.maximumNameLength, !key.isEmpty else {
            throw AsyncKVStoreError(.invalidKey, operation, key: name)
        }
        return key
    }

    /// The name of a key; nil if it is not in the store, or another program has given it a longer name than a store's.
    func name(of key: Data) -> String? {
        guard key.starts(with: prefix), key.count - prefix.count <= KVKey<Int>.maximumNameLength else { return nil }
        return String(validating: key.dropFirst(prefix.count), as: UTF8.self)
    }

    /// Whether two names have the same bytes.
    func areEqual(_ left: String, _ right: String) -> Bool { left.utf8.elementsEqual(right.utf8) }

    /// The first key of a range of names. The server takes a zero byte for "from the first key".
    func start(of names: String) -> Data {
        let start = prefix + Data(names.utf8)
        return start.isEmpty ? Data([0]) : start
    }

    /// The end of a range of names: the first key that does not have the prefix; a zero byte for "no end".
    func end(of names: String) -> Data {
        var end = prefix + Data(names.utf8)
        while let last = end.popLast() {
            if last < 0xFF { return end + [last + 1] }
        }
        return Data([0])
    }

    /// The transaction of a batch. A server refuses several changes of one key, so only the last is sent.
    func transaction(of batch: KVBatch, lease: Int64?) throws(AsyncKVStoreError) -> EtcdTransaction {
        var changes: [Data: KVBatch.Change] = [:]
        for change in batch.changes { changes[try key(of: change.name, .batch)] = change }
        var transaction = EtcdTransaction(compare: [], success: [])
        for requirement in batch.requirements {
            transaction.compare.append(
                EtcdTransaction.Compare(
                    key: try key(of: requirement.name, .batch),
                    mod_revision: EtcdInteger(Int64(clamping: requirement.revision ?? 0))))
        }
        for (key, change) in changes {
            var operation = EtcdTransaction.Operation()
            switch change {
            case .set(_, let bytes):
                operation.request_put = .init(key: key, value: Data(bytes), lease: lease.map { EtcdInteger($0) })
            case .remove: operation.request_delete_range = .init(key: key)
            }
            transaction.success.append(operation)
        }
        return transaction
    }
}

extension EtcdKeyValue {
    /// The value and its revision.
    var entry: KVEntry {
        KVEntry(bytes: [UInt8](value ?? Data()), revision: UInt64(clamping: mod_revision?.value ?? 0))
    }
}
#endif
