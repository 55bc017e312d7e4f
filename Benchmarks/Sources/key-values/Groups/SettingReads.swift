import ForgeKVStore
import Measuring

/// Reads settings through `Setting`; `get` of the same keys is the reference.
struct SettingReads<Value: Sample> {
    private static var count: Int { 1_000 }
    private static var rounds: Int { 100 }

    private let workspace: Workspace
    private let samples = Samples<Value>(Self.count)
    private let contest = Contest()

    init(_ workspace: Workspace) {
        self.workspace = workspace
    }

    /// Reads through settings that name no store if `isHome`; once in a process.
    func line(_ goal: GoalLine.Goal, isHome: Bool = false) throws -> GoalLine {
        let store = try FileKVStore(at: workspace.place("setting-\(Value.title)\(isHome ? "-home" : "")"))
        if isHome { try DefaultSettingsStore.open { store } }
        func property(_ setting: KVSetting<Value>) -> Setting<Value> {
            isHome ? Setting(setting) : Setting(setting, in: store)
        }
        let absent = Value(sample: 0)
        let settings = samples.keys.map { KVSetting($0, default: absent) }
        for (setting, value) in zip(settings, samples.values) { try store.set(setting, value: value) }
        let properties = settings.map(property)
        try check("Setting", samples.names, samples.values) { name in
            property(KVSetting(name, default: absent)).wrappedValue
        }
        let (keys, rounds) = (samples.keys, Self.rounds)
        contest.add("FileKVStore.get", count: rounds * keys.count) {
            for _ in 0..<rounds { for key in keys { keep(store.get(key)) } }
        }
        contest.add("Setting", count: rounds * keys.count) {
            for _ in 0..<rounds { for index in properties.indices { keep(properties[index].wrappedValue) } }
        }
        let measured = try contest.run(runs: 11)
        return GoalLine(
            "Setting<\(Value.title)>\(isHome ? " without a store" : "")", goal, measured[1], reference: measured[0],
            peers: [])
    }
}
