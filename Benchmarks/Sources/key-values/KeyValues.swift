import ForgeKVStore
import Foundation
import Measuring

// Foundation has a type of the same name.
typealias Measurement = Measuring.Measurement

/// Measures FileKVStore beside its peers; every line has a goal, figures, and a verdict.
@main
enum KeyValues {
    static func main() throws {
        let arguments = Array(CommandLine.arguments.dropFirst())
        // A child process that measures one opening.
        if arguments.first == Opening.argument { return print(try Opening(Array(arguments.dropFirst())).run()) }
        if arguments.first == Growth.argument { return print(try Growth.run(Array(arguments.dropFirst()))) }
        let invocation: Invocation
        do {
            invocation = try Invocation(arguments)
        } catch {
            FileHandle.standardError.write(Data("\(Invocation.usage)\n".utf8))
            exit(EX_USAGE)
        }
        let workspace = try Workspace(in: URL(fileURLWithPath: invocation.directory, isDirectory: true))
        let outcome = Result { try run(invocation.groups, workspace) }
        try workspace.remove()
        try outcome.get()
    }

    private static func run(_ groups: Set<Invocation.Group>, _ workspace: Workspace) throws {
        let start = ContinuousClock.now
        keepFreedMemory()
        print("medians; \(ProcessInfo.processInfo.activeProcessorCount) cores; \(Peers.versions)\n")
        print(GoalTable.header)
        var lines: [GoalLine] = []
        for group in Invocation.Group.allCases where groups.contains(group) {
            try run(group, workspace) { line in
                print(GoalTable.text(line))
                fflush(nil)
                lines.append(line)
            }
        }
        print("\n\(GoalTable.summary(lines)); \((ContinuousClock.now - start).components.seconds) s")
    }

    private static func run(
        _ group: Invocation.Group, _ workspace: Workspace, _ report: (GoalLine) -> Void
    ) throws {
        switch group {
        case .get:
            report(try Reads<Int>(count: 1_000, workspace).line(.ratioAtMost(0.4)))
            report(try Reads<String>(count: 1_000, workspace).line(.ratioAtMost(0.55)))
            report(try Reads<Settings>(count: 1_000, workspace).line(.ratioAtMost(0.55)))
        case .getMany:
            report(try Reads<Int>(count: 100_000, workspace).line(.atMost(.nanoseconds(130))))
            report(try Reads<String>(count: 100_000, workspace).line(.atMost(.nanoseconds(130))))
        case .settings:
            report(try SettingReads<Int>(workspace).line(.ratioAtMost(1.3)))
            report(try SettingReads<String>(workspace).line(.ratioAtMost(1.3)))
            report(try SettingReads<Settings>(workspace).line(.ratioAtMost(1.3)))
            report(try SettingReads<String>(workspace).line(.ratioAtMost(1.3), isHome: true))
        case .set:
            report(try Writes<Int>(workspace).line(.ratioAtMost(0.3), elsewhere: 270))
            report(try Writes<String>(workspace).line(.ratioAtMost(0.3), elsewhere: 430))
            report(try Writes<Settings>(workspace).line(.atMost(.nanoseconds(700))))
        case .durable:
            report(try DurableWrites(workspace).line())
            report(try WritersTogether(workspace).line())
        case .batch:
            report(try Batches<Int>(workspace).line())
            report(try Batches<String>(workspace).line())
        case .open:
            try Openings(count: 100_000, .nanoseconds(8e6), workspace).lines().forEach(report)
            try Openings(count: 1_000_000, .nanoseconds(80e6), workspace).lines().forEach(report)
        case .scale:
            report(try Growth.line(count: 50_000, 140, workspace))
            report(try Growth.line(count: 300_000, 140, workspace))
            report(try WritesAmongMany(workspace).line(.atMost(.nanoseconds(1230))))
        case .overwrite:
            try Overwrites(workspace).lines().forEach(report)
        case .threads:
            report(try ReadersTogether<Int>(workspace).line())
            report(try ReadersTogether<String>(workspace).line())
            report(try ReaderBesideWriter(workspace).line())
        }
    }
}
