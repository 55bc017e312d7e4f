import ForgeStorage
import Foundation

/// Copies keys and values between stores and lines of JSON.
struct KeyValueTransfer {
    private let arguments: TransferArguments
    private let log: TransferLog

    init(_ arguments: TransferArguments, _ log: TransferLog) {
        self.arguments = arguments
        self.log = log
    }

    func run() throws {
        guard
            arguments.source.isStandardStream
                || arguments.source.url.standardizedFileURL
                    != arguments.destination.url.standardizedFileURL
        else { throw CommandFailure("the source and the destination are the same", .usage) }
        let (source, damage) = try KeyValueSource.open(arguments.source)
        for text in damage { try log.record(.fail, "", reason: "the source is damaged: \(text)") }
        if log.progress.isVisible, let count = try source.count() {
            log.progress.expect(.init(items: count))
        }
        try requireContent(of: source)
        switch (arguments.dryRun, arguments.destination.scheme) {
        case (true, _): try rehearse(source)
        case (false, .keyValue): try copyToStore(source)
        case (false, _): try copyToLines(source)
        }
        if arguments.verify, !arguments.dryRun { try verify(source) }
    }

    private func requireContent(of source: KeyValueSource) throws {
        if try source.count() == 0 { throw Self.empty(arguments.source) }
    }

    private static func empty(_ home: Home) -> CommandFailure {
        CommandFailure("the source is empty: \(home.text); nothing was changed")
    }

    // MARK: Copying

    private func rehearse(_ source: KeyValueSource) throws {
        let home = arguments.destination
        var present: FileKVStore?
        do {
            if home.scheme == .keyValue { present = try KVStoreArgument.open(home.url, .readOnly).store }
        } catch let failure as CommandFailure where failure.status == .notFound {
            present = nil
        }
        let names = try copy(source, present: { try present?.rawValue(named: $0) }, store: { _, _ in })
        if let present, arguments.delete { try deleteOthers(than: names, source, in: present) }
    }

    private func copyToStore(_ source: KeyValueSource) throws {
        try requireFirstLine(of: source)
        let (store, damage) = try KVStoreArgument.openShared(arguments.destination.url)
        for text in damage { try log.record(.fail, "", reason: "the destination was damaged: \(text)") }
        do {
            try copy(source, to: store)
        } catch {
            // The first error is the one to report.
            do { try store.close() } catch _ {}
            throw error
        }
        try store.close()
    }

    private func copy(_ source: KeyValueSource, to store: FileKVStore) throws {
        let target = KVStoreTarget(store)
        let names = try copy(
            source, present: { try target.value(of: $0) }, store: { try target.set($0, $1) })
        try target.finish()
        if arguments.delete { try deleteOthers(than: names, source, in: store) }
    }

    /// A file without lines creates no store.
    private func requireFirstLine(of source: KeyValueSource) throws {
        guard case .lines(let home) = source, !home.isStandardStream else { return }
        let size = try SystemFileSystem().status(POSIXPath(home.url)).sizeInBytes
        if size == 0 { throw Self.empty(home) }
    }

    private func copyToLines(_ source: KeyValueSource) throws {
        var target = try LinesTarget(arguments.destination)
        defer { target.discard() }
        _ = try copy(source, present: { _ in nil }, store: { try target.set($0, $1) })
        try target.finish()
    }

    /// Copies every key; returns their names if they are needed later and cannot be looked up.
    private func copy(
        _ source: KeyValueSource, present: (String) throws -> [UInt8]?, store: (String, [UInt8]) throws -> Void
    ) throws -> Set<String> {
        var names: Set<String> = []
        var isEmpty = true
        try source.forEach { key, result in
            isEmpty = false
            let bytes: [UInt8]
            do throws(CommandFailure) {
                bytes = try result.get()
            } catch {
                return try log.record(.fail, key, reason: "\(error)")
            }
            guard key.utf8.count <= KVKey<Bool>.maximumNameLength else {
                return try log.record(.fail, key.shortened(to: 80), reason: "the name is too long")
            }
            if arguments.delete, !source.isStore { names.insert(key) }
            let old = try present(key)
            guard old != bytes else { return try log.record(.equal, key, bytes: Int64(bytes.count)) }
            try store(key, bytes)
            try log.record(old == nil ? .copy : .replace, key, bytes: Int64(bytes.count))
        }
        guard !isEmpty else { throw Self.empty(arguments.source) }
        return names
    }

    // MARK: Afterwards

    private func deleteOthers(than names: Set<String>, _ source: KeyValueSource, in store: FileKVStore) throws {
        try log.requireCompleteSource()
        let others = try store.keys().filter { name in
            try source.isStore ? source.value(of: name) == nil : !names.contains(name)
        }
        guard others.count <= arguments.maxDelete else {
            throw CommandFailure(
                "nothing was deleted: \(counted(others.count, "key")) would be, more than --max-delete "
                    + "\(arguments.maxDelete)", .partial)
        }
        var batch = KVBatch()
        for name in others { batch.append(.remove(name: name)) }
        if !arguments.dryRun {
            try store.commit(batch)
            try store.synchronize()
        }
        for name in others.sorted() { try log.record(.delete, name) }
    }

    /// Reads the destination from disk and compares it with the source.
    private func verify(_ source: KeyValueSource) throws {
        let (target, damage) = try KeyValueSource.open(arguments.destination)
        for text in damage { try log.record(.fail, "", reason: "the destination is damaged: \(text)") }
        let (walked, asked) = target.isStore ? (source, target) : (target, source)
        var count = 0
        try walked.forEach { key, result in
            guard case .success(let bytes) = result else { return }
            count += 1
            if try asked.value(of: key) == bytes {
                try log.record(.verify, key)
            } else {
                try log.record(.fail, key, reason: "differs when read back")
            }
        }
        if !target.isStore, try source.count() != count {
            try log.record(.fail, "", reason: "\(count) keys were read back, not as many as the source has")
        }
    }
}
