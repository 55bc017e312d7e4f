import Foundation

/// The parsed command line.
struct Invocation {
    /// A group that can be run alone.
    enum Group: String, CaseIterable {
        case get
        case getMany = "get-many"
        case settings, set, durable, batch, open, scale, overwrite, threads
    }

    var directory = ".build/key-values"
    var groups = Set(Group.allCases)

    static let usage = """
        usage: key-values [DIRECTORY] [--only NAME...]

          DIRECTORY       where the stores are made, in a directory of their own; .build/key-values
          --only NAME...  some groups only: \(Group.allCases.map(\.rawValue).joined(separator: ", "))
        """

    struct Unusable: Error {}

    init(_ arguments: [String]) throws {
        var arguments = arguments[...]
        if let first = arguments.first, !first.hasPrefix("-") {
            directory = first
            arguments.removeFirst()
        }
        guard let option = arguments.popFirst() else { return }
        let names = arguments.compactMap { Group(rawValue: $0) }
        guard option == "--only", !names.isEmpty, names.count == arguments.count else { throw Unusable() }
        groups = Set(names)
    }
}
