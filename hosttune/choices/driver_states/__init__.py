"""The states of the driver by what they are about; their order is in
hosttune.choices.driver_state.
"""
