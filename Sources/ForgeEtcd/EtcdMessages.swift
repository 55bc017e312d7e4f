#if Etcd
import ForgeKVStore
import Foundation

// The messages of etcd's JSON gateway that the store uses: bytes in base64, 64-bit numbers as strings, and fields
// with the value zero left out. https://etcd.io/docs/v3.4/dev-guide/api_grpc_gateway/

/// A 64-bit number, written as a string.
struct EtcdInteger: Codable, Hashable, Sendable {
    var value: Int64

    init(_ value: Int64) { self.value = value }

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        do {
            guard let number = Int64(try container.decode(String.self)) else {
                throw DecodingError.dataCorruptedError(in: container, debugDescription: "not a number")
            }
            value = number
        } catch DecodingError.typeMismatch {
            value = try container.decode(Int64.self)
        }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(String(value))
    }
}

struct EtcdHeader: Decodable, Sendable {
    var revision: EtcdInteger?

    /// An unsigned number, as text.
    var cluster_id: String?
}

struct EtcdKeyValue: Decodable, Hashable, Sendable {
    var key: Data
    var value: Data?
    var mod_revision: EtcdInteger?
}

/// A value with the creation revision and the version of its key. Lists leave them out: each field takes time to
/// decode.
struct EtcdVersionedKeyValue: Decodable, Sendable {
    var value: Data?
    var create_revision: EtcdInteger?
    var version: EtcdInteger?
}

/// A value with the lease whose end removes it, which lists leave out too.
struct EtcdLeasedKeyValue: Decodable, Sendable {
    var value: Data?
    var mod_revision: EtcdInteger?
    var lease: EtcdInteger?
}

struct EtcdRangeRequest: Encodable, Sendable {
    var key: Data
    var range_end: Data?
    var limit: EtcdInteger?
    var revision: EtcdInteger?
    var serializable: Bool?
    var keys_only: Bool?
}

struct EtcdRangeResponse<KeyValue: Decodable & Sendable>: Decodable, Sendable {
    var header: EtcdHeader
    var kvs: [KeyValue]?
    var more: Bool?
}

struct EtcdTransaction: Encodable, Sendable {
    struct Compare: Encodable, Sendable {
        var key: Data
        var target = "MOD"
        var result = "EQUAL"
        var mod_revision: EtcdInteger
    }

    struct Operation: Encodable, Sendable {
        struct Put: Encodable, Sendable {
            var key: Data
            var value: Data
            var lease: EtcdInteger?
        }

        struct Delete: Encodable, Sendable {
            var key: Data
        }

        var request_put: Put?
        var request_delete_range: Delete?
    }

    var compare: [Compare]
    var success: [Operation]

    /// The put of a transaction that consists of it alone.
    var onlyPut: Operation.Put? {
        compare.isEmpty && success.count == 1 ? success[0].request_put : nil
    }
}

struct EtcdTransactionResponse: Decodable, Sendable {
    var header: EtcdHeader?
    var succeeded: Bool?
}

struct EtcdPutResponse: Decodable, Sendable {
    var header: EtcdHeader?
}

struct EtcdLeaseRequest: Encodable, Sendable {
    var TTL: EtcdInteger?
    var ID: EtcdInteger?
}

struct EtcdLeaseResponse: Decodable, Sendable {
    var ID: EtcdInteger?
    var TTL: EtcdInteger?
}

/// A message of a streaming call.
struct EtcdStreamed<Message: Decodable & Sendable>: Decodable, Sendable {
    var result: Message?
    var error: EtcdStreamError?
}

struct EtcdStreamError: Decodable, Sendable {
    var grpc_code: Int?
    var message: String?
}

struct EtcdWatchRequest: Encodable, Sendable {
    struct Create: Encodable, Sendable {
        var key: Data
        var range_end: Data
        var start_revision: EtcdInteger?
        var progress_notify = true
        var fragment = true
    }

    var create_request: Create
}

struct EtcdWatchResponse: Decodable, Sendable {
    struct Event: Decodable, Sendable {
        var type: String?
        var kv: EtcdKeyValue
    }

    var header: EtcdHeader?
    var created: Bool?
    var canceled: Bool?
    var compact_revision: EtcdInteger?
    var cancel_reason: String?

    /// Whether the next message continues the last revision of this one.
    var fragment: Bool?
    var events: [Event]?
}

struct EtcdLogIn: Encodable, Sendable {
    var name: String
    var password: String
}

struct EtcdToken: Decodable, Sendable {
    var token: String
}

struct EtcdServerError: Decodable, Sendable {
    var message: String?
    var error: String?
    var code: Int?
}

struct EtcdServerVersion: Decodable, Sendable {
    var etcdserver: String
}

/// The keys of a store's names: a prefix and the UTF-8 of the name.
struct EtcdNames: Sendable {
    private let prefix: Data

    init(prefix: String) {
        self.prefix = Data(prefix.utf8)
    }

    /// An identifier of the cluster and the prefix together; nil if the cluster is unknown.
    func storeID(in cluster: String?) -> String? { cluster.map { "\($0) \(String(decoding: prefix, as: UTF8.self))" } }

    /// The key of a name.
    func key(of name: String, _ operation: KVStoreError.Operation) throws(KVStoreError) -> Data {
        let key = prefix + Data(name.utf8)
        guard name.utf8.count <= KVKey<Int>.maximumNameLength, !key.isEmpty else {
            throw KVStoreError(.invalidKey, operation, key: name)
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
    func transaction(of batch: KVBatch, lease: Int64?) throws(KVStoreError) -> EtcdTransaction {
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
