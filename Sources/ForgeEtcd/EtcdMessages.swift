#if Etcd
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

struct EtcdNothing: Codable, Sendable {}

struct EtcdServerError: Decodable, Sendable {
    var message: String?
    var error: String?
    var code: Int?
}

struct EtcdServerVersion: Decodable, Sendable {
    var etcdserver: String
}
#endif
