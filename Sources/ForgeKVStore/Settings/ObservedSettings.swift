public import Observation
import Synchronization

/// A model of a store's settings that views observe.
///
/// ```swift
/// let settings = ObservedSettings(store)
///
/// withObservationTracking {
///     label.text = settings[.theme].rawValue
/// } onChange: {
///     print("the theme changes")
/// }
/// settings[.theme] = .dark
/// ```
///
/// It announces changes made through this object, the store itself, another wrapper or another process.
/// (``UserDefaultsKVStore`` reports writes of its own objects, and of other code those that Foundation announces. Over a
/// store that reports none, only those through this object are announced.) Each key is observed separately: a change of one
/// does not re-evaluate observers of others, unless any key may have changed: after `removeAll`, and after a batch of more
/// than 10,000 names.
///
/// Announcements are made on one actor, by default the main actor: not by the assignment, but soon after the value has
/// changed, and with no lock held. Several changes may be announced together; an announcement always follows the last
/// change. Observe on that actor: elsewhere, a change announced while `withObservationTracking` runs its closure is
/// missed.
///
/// Neither the store nor an observer retains this object, and this object does not retain the actor.
public final class ObservedSettings: Observable, Sendable {
    private let store: any KVStoring
    private let registrar = ObservationRegistrar()

    /// The names that were read; only these can have observers.
    private let observed = Mutex<Set<KeyName>>([])
    private let source = Mutex(Source.none)

    /// Where announced changes come from.
    private enum Source {
        case none
        case store(Task<Void, Never>)

        /// This object, because the store does not report changes.
        case own(@Sendable (_ names: [String]?) -> Void)
    }

    /// The model of the settings of ``DefaultSettingsStore``, announced on the main actor.
    /// ``DefaultSettingsStore/withStore(_:_:)`` does not change its store.
    public static let `default` = ObservedSettings(DefaultSettingsStore.processStore)

    /// Creates a model of the settings of a store.
    ///
    /// - Parameters:
    ///   - store: The store, by default that of ``DefaultSettingsStore``.
    ///   - actor: The actor on which changes are announced.
    public init(
        _ store: any KVStoring = DefaultSettingsStore.store, isolation actor: any Actor = MainActor.shared
    ) {
        self.store = store
        // The actor may own this object.
        let announce: @Sendable ([String]?) async -> Void = { [weak self, weak actor] names in
            guard let actor else { return }
            await self?.announce(names, on: actor)
        }
        let source: Source =
            if let changes = store.subscribe(to: .prefix("")) {
                .store(Task { await Self.follow(changes, announce) })
            } else {
                .own { names in Task { await announce(names) } }
            }
        self.source.withLock { $0 = source }
    }

    deinit {
        if case .store(let task) = source.withLock({ $0 }) { task.cancel() }
    }

    private static func follow(_ changes: KVChanges, _ announce: @Sendable ([String]?) async -> Void) async {
        var iterator = changes.makeAsyncIterator()
        while !Task.isCancelled {
            do throws(KVStoreError) {
                guard let set = try await iterator.nextSet() else { return }
                let names = set.changes.compactMap(\.name)
                await announce(names.count == set.changes.count ? names : nil)
            } catch {
                await announce(nil)
            }
        }
    }

    /// The value of a setting; reading it starts observing it.
    ///
    /// A failed assignment is reported as by ``Setting``; ``set(_:value:)`` throws instead.
    public subscript<Value>(_ setting: KVSetting<Value>) -> Value {
        get {
            let name = setting.key.identity
            _ = observed.withLock { $0.insert(name) }
            registrar.access(self, keyPath: \.[name])
            return store.get(setting)
        }
        set {
            Setting(setting, in: store).wrappedValue = newValue
            didChange(setting)
        }
    }

    /// Stores the value of a setting.
    ///
    /// - Throws: ``KVStoreError``, as ``KVStoring/set(_:value:)``.
    public func set<Value>(_ setting: KVSetting<Value>, value: Value) throws {
        try store.set(setting, value: value)
        didChange(setting)
    }

    /// Removes the stored value, so that reading gives the default.
    ///
    /// - Throws: ``KVStoreError``, as ``KVStoring/remove(_:)``.
    public func reset<Value>(_ setting: KVSetting<Value>) throws {
        try store.remove(setting)
        didChange(setting)
    }

    private func didChange<Value>(_ setting: KVSetting<Value>) {
        guard case .own(let announce) = source.withLock({ $0 }) else { return }
        announce([setting.name])
    }

    /// The property of a name, identified by its key path in the registrar.
    private subscript(_ name: KeyName) -> Void { () }

    private func announce(_ names: [String]?, on actor: isolated any Actor) {
        let changed = observed.withLock { observed in
            names.map { observed.intersection($0.map(KeyName.init)) } ?? observed
        }
        for name in changed { registrar.withMutation(of: self, keyPath: \.[name]) {} }
    }
}

#if canImport(SwiftUI)
public import SwiftUI

/// A setting in a SwiftUI view, which is updated when the value changes.
///
/// ```swift
/// import SwiftUI
///
/// struct ThemePicker: View {
///     @ObservedSetting(.theme) private var theme
///
///     var body: some View {
///         Picker("Theme", selection: $theme) {
///             Text("Light").tag(Theme.light)
///             Text("Dark").tag(Theme.dark)
///         }
///     }
/// }
/// ```
///
/// The model is the ``ObservedSettings`` of the environment (`.environment(settings)`), or else
/// ``ObservedSettings/default``. A failed assignment is reported as by ``Setting``, and the view shows the stored value.
@propertyWrapper
@MainActor
public struct ObservedSetting<Value: Codable & Sendable>: DynamicProperty {
    @Environment(ObservedSettings.self) private var settings: ObservedSettings?
    private let setting: KVSetting<Value>

    /// A view's property for a setting.
    public init(_ setting: KVSetting<Value>) {
        self.setting = setting
    }

    /// The value, or the default if it is absent or cannot be read.
    public var wrappedValue: Value {
        get { model[setting] }
        nonmutating set { model[setting] = newValue }
    }

    /// A binding to the value.
    public var projectedValue: Binding<Value> {
        let (model, setting) = (model, setting)
        return Binding(get: { model[setting] }, set: { model[setting] = $0 })
    }

    private var model: ObservedSettings { settings ?? .default }
}
#endif
