import Foundation

/// The command: stresses stores, prints a line for each, and fails if a value was wrong.
@main
struct Stress {
    static let usage = """
        usage: stress [STORE...] [--seconds N] [--directory DIR] [--deny-membarrier]
               stress count N
               stress values
               stress files TASKS SECONDS

          STORE               what to stress: \(StoreKind.allCases.map(\.rawValue).joined(separator: ", ")); all by default
          --seconds N         how long each is stressed; 10
          --directory DIR     where stores on disk are made, in a directory of their own; the temporary directory
          --deny-membarrier   membarrier(2) fails after the first two seconds (Linux)
          count N             four threads and a process increment a setting of a shared store N times
          files TASKS SECONDS tasks save, load, write, count, delete and list files of one store
          values              values of every built-in type are written, compacted and read
        """

    struct Unusable: Error {}

    private var kinds: [StoreKind] = []
    private var seconds = 10.0
    private var parent = FileManager.default.temporaryDirectory
    private var deniesMembarrier = false

    private init(_ arguments: [String]) throws {
        var arguments = arguments[...]
        while let argument = arguments.popFirst() {
            switch argument {
            case "--seconds":
                guard let value = arguments.popFirst().flatMap(Double.init), value > 0 else { throw Unusable() }
                seconds = value
            case "--directory":
                guard let path = arguments.popFirst() else { throw Unusable() }
                parent = URL(fileURLWithPath: path, isDirectory: true)
            case "--deny-membarrier": deniesMembarrier = true
            default:
                guard let kind = StoreKind(rawValue: argument) else { throw Unusable() }
                kinds.append(kind)
            }
        }
        if kinds.isEmpty { kinds = StoreKind.allCases }
    }

    private func run() throws -> Bool {
        var isClean = true
        for kind in kinds {
            let directory = parent.appendingPathComponent("stress-\(kind)-\(UUID().uuidString)")
            defer { removeStore(kind, directory) }
            let start = Date()
            let run = Run(kind: kind, directory: directory, deniesMembarrier: deniesMembarrier)
            let (tally, rounds) = try run.run(seconds: seconds)
            for finding in tally.findings { print("\(kind): \(finding)") }
            print(
                "\(kind): \(Int(Date().timeIntervalSince(start))) s, \(rounds) rounds, \(tally.reads) reads,",
                "\(tally.writes) writes, \(tally.foreign) foreign values, \(tally.stale) stale values,",
                "\(tally.missing) missing values")
            isClean = isClean && tally.isClean
        }
        return isClean
    }

    private func removeStore(_ kind: StoreKind, _ directory: URL) {
        guard kind.isOnDisk else { return }
        do {
            try FileManager.default.removeItem(at: directory)
        } catch {
            print("\(directory.path) is left: \(error)")
        }
    }

    static func main() async throws {
        let arguments = Array(CommandLine.arguments.dropFirst())
        if arguments.count == 3, arguments[0] == "write", let seconds = Double(arguments[2]) {
            return try Run.write(URL(fileURLWithPath: arguments[1], isDirectory: true), seconds: seconds)
        }
        if arguments.count == 3, arguments[0] == "increment", let count = Int(arguments[2]) {
            return try Counting(directory: URL(fileURLWithPath: arguments[1], isDirectory: true)).increment(count)
        }
        if arguments.count == 2, arguments[0] == "count", let count = Int(arguments[1]) {
            let directory = FileManager.default.temporaryDirectory.appendingPathComponent("stress-\(UUID().uuidString)")
            exit(try Counting(directory: directory).run(count) ? 0 : 1)
        }
        if arguments.count == 3, arguments[0] == "files", let count = Int(arguments[1]),
            let seconds = Double(arguments[2])
        {
            let directory = FileManager.default.temporaryDirectory.appendingPathComponent("stress-\(UUID().uuidString)")
            exit(try await Files(directory: directory).run(seconds: seconds, taskCount: count) ? 0 : 1)
        }
        if arguments == ["values"] {
            let directory = FileManager.default.temporaryDirectory.appendingPathComponent("stress-\(UUID().uuidString)")
            exit(try BuiltInValues(directory: directory).run() ? 0 : 1)
        }
        let stress: Stress
        do {
            stress = try Stress(arguments)
        } catch {
            print(usage)
            exit(2)
        }
        exit(try stress.run() ? 0 : 1)
    }
}
