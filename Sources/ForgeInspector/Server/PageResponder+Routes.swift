#if Inspector
import ForgeStorage
import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdCore
import ServiceLifecycle
import SystemPackage

extension PageResponder {
    /// The number of rows of one answer.
    private static let rowLimit = 500

    /// How long an answer waits for a change at most, in seconds.
    private static let patience = 20

    func get(_ path: String, _ query: Query) async throws -> Response {
        if path == "/api/changes" {
            let number = try query.number("after", default: 0)
            let seconds = try query.number("wait", default: Self.patience, upTo: Self.patience)
            // Otherwise an interrupt would wait for the answer.
            let page = try await cancelWhenGracefulShutdown {
                try await self.inspector.timeline.events(after: number, waiting: .seconds(seconds))
            }
            return try Self.response(.ok, json: page)
        }
        // Everything else reads files.
        return try await BlockingLane.general.run { [self] () throws -> Response in
            let offset = try query.number("offset", default: 0)
            let limit = try query.number("limit", default: 200, upTo: Self.rowLimit)
            switch path {
            case "/api/stores": return try Self.response(.ok, json: inspector.summary)
            case "/api/keys":
                return try Self.response(.ok, json: try store(query).page(list(query), offset: offset, limit: limit))
            case "/api/value":
                let value = try store(query).value(of: query["key"], decoders: inspector.options.decoders)
                guard let value else { throw PageFailure(.notFound, "there is no such key any more") }
                return try Self.response(.ok, json: value)
            case "/api/log":
                let store = try store(query)
                guard let map = try store.map(sectionCount: 480) else { throw PageFailure.noSuchStore }
                return try Self.response(.ok, json: LogMap(map, of: store.store, in: inspector.root))
            case "/api/records":
                let records = try store(query).records(from: offset, limit: limit)
                return try Self.response(.ok, json: records.map { ShownRecord($0) })
            case "/api/files":
                return try Self.response(
                    .ok, json: inspector.files.list(query["path"], offset: offset, limit: limit))
            case "/api/file":
                return try Self.response(.ok, json: inspector.files.preview(query["path"], offset: Int64(offset)))
            case "/api/cache":
                guard let cache = inspector.cache(query["store"]) else { throw PageFailure.noSuchStore }
                return try Self.response(
                    .ok, json: CacheContent(of: cache, in: inspector.root, offset: offset, limit: limit))
            case "/api/vault":
                guard let content = try inspector.vault(query["store"])?.content() else {
                    throw PageFailure.noSuchStore
                }
                return try Self.response(.ok, json: content)
            case "/api/sessions": return try Self.response(.ok, json: sessions())
            default: throw PageFailure(.notFound, "there is no such page")
            }
        }
    }

    private struct Unlocking: Decodable {
        var store: String
    }

    func post(_ path: String, _ body: Data) async throws -> Response {
        try await BlockingLane.general.run { [self] () throws -> Response in
            switch path {
            case "/api/unlock", "/api/lock":
                let request = try JSONDecoder().decode(Unlocking.self, from: body)
                guard let vault = inspector.vault(request.store) else { throw PageFailure.noSuchStore }
                if path == "/api/lock" {
                    vault.lock()
                } else {
                    try unlock(vault)
                }
                guard let content = try vault.content() else { throw PageFailure.noSuchStore }
                return try Self.response(.ok, json: content)
            case "/api/edits":
                guard inspector.options.isWritable else {
                    throw PageFailure(.forbidden, "this page only reads; start it with --write to edit")
                }
                let edits = try JSONDecoder().decode(StagedEdits.self, from: body)
                try inspector.apply(edits, to: store(named: edits.store))
                return try Self.response(.ok, json: ["applied": edits.edits.count])
            default: throw PageFailure(.notFound, "there is no such page")
            }
        }
    }

    private func unlock(_ vault: VaultView) throws {
        guard !inspector.options.vaultKeys.isEmpty else {
            throw PageFailure(.conflict, "no key was given; start the page with --vault-key FILE")
        }
        guard try vault.unlock(with: inspector.options.vaultKeys) else {
            throw PageFailure(.conflict, "none of the given keys opens this vault")
        }
    }

    private func store(_ query: Query) throws -> KeyValueView { try store(named: query["store"]) }

    private func store(named id: String) throws -> KeyValueView {
        guard let store = inspector.keyValueStore(id) else { throw PageFailure.noSuchStore }
        return store
    }

    private func list(_ query: Query) throws -> KeyValueView.List {
        var list = KeyValueView.List(prefix: query["prefix"], text: query["text"])
        if let order = KVLogIndex.Order(rawValue: query["order"]) { list.order = order }
        if let delimiter = query["delimiter"].first {
            guard delimiter.isASCII else { throw PageFailure(.badRequest, "the delimiter is not ASCII") }
            list.delimiter = delimiter
        }
        return list
    }

    private struct Session: Encodable {
        var store: String
        var storeID: String
        var name: String
        var type: String?
        var expiry: Double?
        var isSecret = false
    }

    private struct Sessions: Encodable {
        var rows: [Session] = []
        /// Why the sessions of some stores are not listed.
        var failures: [String] = []
    }

    private func sessions() -> Sessions {
        var found = Sessions()
        for view in inspector.keyValueStores {
            do {
                for row in try view.sessions(limit: Self.rowLimit) {
                    found.rows.append(
                        Session(
                            store: view.store.name, storeID: view.store.id, name: row.key, type: row.type,
                            expiry: row.expiry))
                }
            } catch {
                found.failures.append("\(view.store.name): \(error)")
            }
        }
        for vault in inspector.vaults {
            do {
                for name in try vault.content()?.names ?? [] where name.hasBytePrefix("session.") {
                    found.rows.append(
                        Session(store: vault.store.name, storeID: vault.store.id, name: name, isSecret: true))
                }
            } catch {
                found.failures.append("\(vault.store.name): \(error)")
            }
        }
        return found
    }
}

extension PageFailure {
    /// The status and text of an error of a store; they contain no value.
    init(_ error: any Error) {
        switch error {
        case let error as KVStoreError where error.code == .conflict:
            let name = error.key.map { " of \($0)" } ?? ""
            self.init(.conflict, "refused: the value\(name) has changed since it was read; nothing was stored")
        case let error as KVStoreError where error.isInUse:
            self.init(
                .conflict,
                "refused: another process has opened this store for itself (\(error.code)); nothing was stored")
        case let error as KVStoreError where error.code == .noStore: self.init(.notFound, "\(error)")
        case let error as FileSystemError:
            let isMissing = error.errno == .noSuchFileOrDirectory || error.errno == .notDirectory
            self.init(isMissing ? .notFound : .badRequest, "\(error)")
        case is KVStoreError, is CryptError: self.init(.unprocessableContent, "\(error)")
        case is EditFailure, is CodingFailure: self.init(.badRequest, "refused: \(error)")
        case is DecodingError: self.init(.badRequest, "the request is not of the expected form")
        default: self.init(.internalServerError, "\(error)")
        }
    }
}
#endif
