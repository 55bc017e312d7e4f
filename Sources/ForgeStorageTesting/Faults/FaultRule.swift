public import ForgeFileSystem
public import SystemPackage

/// A fault: the affected calls, their occurrence, and the effect.
///
/// ```swift
/// FaultRule.fail(.write, matching: "**/*.log", call: 3, with: .noSpace)
/// FaultRule.on(.read, do: .corrupt(.flippedBit(offset: 17, bit: 3)))
/// ```
public struct FaultRule: Hashable, Sendable {
    /// The affected operations; if empty, all but `store`, which cannot fail.
    public var operations: Set<FileSystemOperation>

    /// The affected files.
    public var target: FaultTarget

    /// The affected calls among those that match. Each rule counts its own matching calls, whether affected or not.
    public var occurrence: FaultOccurrence

    /// The affected thread, named by ``FaultingFileSystem/onThread(named:_:)``; all threads if nil.
    public var thread: String?

    /// The effect.
    public var action: FaultAction

    /// The name, for logs, errors and ``FaultPlan/lift(_:)``.
    public var name: String?

    /// Creates a rule.
    public init(
        _ operations: Set<FileSystemOperation> = [], matching target: FaultTarget = .anything,
        _ occurrence: FaultOccurrence = FaultOccurrence(), thread: String? = nil, name: String? = nil,
        do action: FaultAction
    ) {
        self.operations = operations
        self.target = target
        self.occurrence = occurrence
        self.thread = thread
        self.action = action
        self.name = name
    }

    func concerns(_ call: FaultCall) -> Bool {
        (operations.isEmpty ? call.operation != .store : operations.contains(call.operation))
            && (thread == nil || thread == call.thread)
            && target.matches(call)
    }
}

extension FaultRule {
    /// Creates a rule for these operations, or for all if none is given; see ``FaultOccurrence`` for the conditions.
    public static func on(
        _ operations: FileSystemOperation..., matching target: FaultTarget = .anything, call: Int? = nil,
        every: Int? = nil, after: Int? = nil, probability: Double? = nil, thread: String? = nil, name: String? = nil,
        do action: FaultAction
    ) -> FaultRule {
        let occurrence = FaultOccurrence(
            calls: call.map { $0...$0 }, every: every, after: after, probability: probability)
        return FaultRule(Set(operations), matching: target, occurrence, thread: thread, name: name, do: action)
    }

    /// Creates a rule that fails these operations, or all if none is given.
    public static func fail(
        _ operations: FileSystemOperation..., matching target: FaultTarget = .anything, call: Int? = nil,
        every: Int? = nil, after: Int? = nil, probability: Double? = nil, thread: String? = nil, name: String? = nil,
        with errno: Errno, effect: FaultEffect = .none
    ) -> FaultRule {
        let occurrence = FaultOccurrence(
            calls: call.map { $0...$0 }, every: every, after: after, probability: probability)
        return FaultRule(
            Set(operations), matching: target, occurrence, thread: thread, name: name,
            do: .fail(errno, effect: effect))
    }
}

extension FaultRule: CustomStringConvertible {
    public var description: String {
        // In case order, because the order of a set varies between processes.
        let operations = FileSystemOperation.allCases.filter(self.operations.contains).map(\.rawValue)
        var text = name.map { "\($0): " } ?? ""
        text += operations.isEmpty ? "any operation" : operations.joined(separator: "/")
        text += " on \(target), \(occurrence)"
        if let thread { text += ", thread \(thread)" }
        return text + ": \(action)"
    }
}
