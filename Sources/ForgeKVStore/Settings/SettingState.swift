import Synchronization

/// The constants of a ``Setting`` and the error of its latest write.
@usableFromInline
final class SettingState<Value: Codable & Sendable>: Sendable {
    /// Nil for the store of ``SettingsHome``.
    let store: (any KVStoring)?

    /// The store that reads go to; not optional, because unwrapping would copy it in every read.
    @usableFromInline let reader: any KVStoring
    @usableFromInline let key: KVKey<Value>
    @usableFromInline let defaultValue: Value
    let setting: KVSetting<Value>
    let error = Mutex<(any Error)?>(nil)

    init(_ setting: KVSetting<Value>, _ store: (any KVStoring)?) {
        self.setting = setting
        self.store = store
        reader = store ?? SettingsHome.Reader()
        key = setting.key
        defaultValue = setting.defaultValue
    }
}
