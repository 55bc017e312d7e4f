import Synchronization

/// The constants of a ``Setting`` and the error of its latest write.
@usableFromInline
final class SettingState<Value: Codable & Sendable>: Sendable {
    /// Nil for the store of ``SettingsHome``.
    @usableFromInline let store: (any KVStoring)?
    @usableFromInline let key: KVKey<Value>
    @usableFromInline let defaultValue: Value
    let setting: KVSetting<Value>
    let error = Mutex<(any Error)?>(nil)

    init(_ setting: KVSetting<Value>, _ store: (any KVStoring)?) {
        self.setting = setting
        self.store = store
        key = setting.key
        defaultValue = setting.defaultValue
    }
}
