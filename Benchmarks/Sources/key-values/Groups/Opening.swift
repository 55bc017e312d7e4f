import ForgeKVStore
import Foundation
import Measuring

/// Opens a store and reads one value, in a new process.
struct Opening {
    /// The store to open.
    enum Kind: String {
        case forge, lmdb, sqlite, defaults
    }

    /// The result, passed as a line of numbers.
    struct Outcome {
        var opening: Double
        var firstRead: Double
        var memory: Double

        init(opening: Double, firstRead: Double, memory: Double) {
            self.opening = opening
            self.firstRead = firstRead
            self.memory = memory
        }

        init?(_ line: String) {
            let numbers = line.split(separator: " ").compactMap { Double($0) }
            guard numbers.count == 3 else { return nil }
            self.init(opening: numbers[0], firstRead: numbers[1], memory: numbers[2])
        }
    }

    /// The argument that marks a child process.
    static let argument = "--opening"

    private let kind: Kind
    private let path: String
    private let number: Int

    /// Parses the arguments: the kind, the path or suite, and the number of the value to read.
    init(_ arguments: [String]) throws {
        guard arguments.count == 3, let kind = Kind(rawValue: arguments[0]), let number = Int(arguments[2]) else {
            throw Invocation.Unusable()
        }
        self.kind = kind
        path = arguments[1]
        self.number = number
    }

    /// Runs the measurement and formats the result.
    func run() throws -> String {
        let name = "settings.string.\(number)"
        let outcome: Outcome
        switch kind {
        case .forge:
            outcome = try measure {
                try FileKVStore(at: URL(fileURLWithPath: path, isDirectory: true))
            } read: { store in
                try store.read(KVKey<String>(name))
            }
        case .lmdb:
            #if canImport(CLMDB)
            outcome = try measure {
                try LMDBStore(path, .mapped)
            } read: {
                try $0.get(name, as: String.self)
            }
            #else
            throw Invocation.Unusable()
            #endif
        case .sqlite:
            #if canImport(CSQLite) || canImport(SQLite3)
            outcome = try measure {
                try SQLiteStore(path, .normal)
            } read: {
                try $0.get(name, as: String.self)
            }
            #else
            throw Invocation.Unusable()
            #endif
        case .defaults:
            outcome = try measure {
                try DefaultsStore(suite: path)
            } read: {
                try $0.get(name, as: String.self)
            }
        }
        return "\(outcome.opening) \(outcome.firstRead) \(outcome.memory)"
    }

    private func measure<Store>(_ open: () throws -> Store, read: (Store) throws -> String?) throws -> Outcome {
        let clock = ContinuousClock()
        let before = residentMemory()
        let start = clock.now
        let store = try open()
        let opened = clock.now
        let value = try read(store)
        let end = clock.now
        let after = residentMemory()
        guard value == String(sample: number) else { throw WrongValue(store: kind.rawValue, name: path) }
        return withExtendedLifetime(store) {
            Outcome(
                opening: (opened - start) / .nanoseconds(1), firstRead: (end - opened) / .nanoseconds(1),
                memory: Double(after - before))
        }
    }
}
